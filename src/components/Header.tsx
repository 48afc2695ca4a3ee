import { Link } from '@tanstack/react-router'
import { useHasFeature } from '../api/health.ts'
import { Bell } from '../ui/icons.tsx'

/** The product's name, which links to the dashboard, and the other pages. */
export function Header() {
  const hasActivity = useHasFeature('activity')
  return (
    <header className="border-b border-line bg-surface">
      <div className="mx-auto flex w-full max-w-3xl justify-between px-4 sm:px-6">
        <Link
          to="/"
          className="-mx-2 inline-flex min-h-14 items-center gap-2.5 rounded-lg px-2 font-semibold focus-visible:-outline-offset-4"
        >
          <span className="rounded-lg bg-accent p-1 text-on-accent">
            <Bell />
          </span>
          Dealbell
        </Link>
        {hasActivity && (
          <Link to="/activity" className="header-link">
            Activity
          </Link>
        )}
      </div>
    </header>
  )
}
