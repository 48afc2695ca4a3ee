import { Link } from '@tanstack/react-router'
import { Bell } from '../ui/icons.tsx'

/** The product's name, and the way to the dashboard from every screen. */
export function Header() {
  return (
    <header className="border-b border-line bg-surface">
      <div className="mx-auto flex w-full max-w-3xl px-4 sm:px-6">
        <Link
          to="/"
          className="-mx-2 inline-flex min-h-14 items-center gap-2 rounded-lg px-2 font-semibold focus-visible:outline-2 focus-visible:-outline-offset-2 focus-visible:outline-accent"
        >
          <Bell />
          Dealbell
        </Link>
      </div>
    </header>
  )
}
