import { Link, useMatches } from '@tanstack/react-router'
import { AccountMenu } from '../account/AccountMenu.tsx'
import { useHasFeature } from '../api/health.ts'
import { Boundary } from '../ui/Boundary.tsx'
import { Bell } from '../ui/icons.tsx'
import { WrongAddress } from './WrongAddress.tsx'

const pageLink =
  '-mx-2 inline-flex min-h-14 items-center rounded-lg px-2 text-sm font-semibold text-muted underline-offset-4 hover:text-ink hover:underline focus-visible:-outline-offset-4 aria-[current=page]:text-ink aria-[current=page]:underline'

/** The product's name, which links to the dashboard, the other pages, and the user's account. */
export function Header() {
  const hasActivity = useHasFeature('activity')
  const hasSessions = useHasFeature('sessions')
  const isPersonal = useMatches({
    select: (matches) => matches.some(({ staticData }) => staticData.isPersonal),
  })
  return (
    <header className="border-b border-line bg-surface">
      <div className="mx-auto flex w-full max-w-3xl flex-wrap items-center gap-x-4 px-4 sm:gap-x-6 sm:px-6">
        {/* Without a preload: a backend of §7 gets no call for a page that nobody opens. */}
        <Link
          to="/"
          preload={false}
          className="-mx-2 inline-flex min-h-14 items-center gap-2.5 rounded-lg px-2 font-semibold focus-visible:-outline-offset-4"
        >
          <span className="rounded-lg bg-accent p-1 text-on-accent">
            <Bell />
          </span>
          <span
            className={
              hasActivity
                ? 'max-sm:absolute max-sm:text-transparent max-sm:[clip-path:inset(50%)]'
                : ''
            }
          >
            Dealbell
          </span>
        </Link>
        {hasActivity && (
          <nav aria-label="Pages" className="flex flex-wrap gap-x-4 sm:gap-x-6">
            <Link to="/" preload={false} className={pageLink}>
              Dashboard
            </Link>
            <Link to="/activity" className={pageLink}>
              Activity
            </Link>
          </nav>
        )}
        {hasSessions && isPersonal && (
          <Boundary>
            <AccountMenu />
          </Boundary>
        )}
      </div>
      <WrongAddress />
    </header>
  )
}
