import type { ReactNode } from 'react'

// Text beside each icon tells its meaning, so no icon needs an accessible name.
function Icon({ className = '', children }: { className?: string; children: ReactNode }) {
  return (
    <svg
      aria-hidden="true"
      viewBox="0 0 20 20"
      strokeLinecap="round"
      strokeLinejoin="round"
      className={`size-5 shrink-0 fill-none stroke-current stroke-2 ${className}`}
    >
      {children}
    </svg>
  )
}

export const GreenCheck = () => (
  <Icon className="text-good">
    <path d="m4.5 10.5 3.5 3.5 7.5-8" />
  </Icon>
)

export const RedCross = () => (
  <Icon className="text-bad">
    <path d="m5.5 5.5 9 9m0-9-9 9" />
  </Icon>
)

export const WarningSign = () => (
  <Icon className="text-warning-sign">
    <path d="M10 3 2.5 16.5h15zM10 8v4m0 2.25v.01" />
  </Icon>
)

export const Clock = () => (
  <Icon className="text-muted">
    <path d="M10 2.5a7.5 7.5 0 1 0 0 15a7.5 7.5 0 1 0 0-15ZM10 6v4l2.75 2" />
  </Icon>
)

export const Dash = () => (
  <Icon className="text-muted">
    <path d="M5 10h10" />
  </Icon>
)

export const Bell = () => (
  <Icon>
    <path d="M10 3a4.5 4.5 0 0 0-4.5 4.5c0 4-1.5 5.5-1.5 5.5h12s-1.5-1.5-1.5-5.5A4.5 4.5 0 0 0 10 3Zm-1.5 12.5a1.6 1.6 0 0 0 3 0" />
  </Icon>
)

/** Shows that something is in progress. It stands still when the user prefers reduced motion. */
export const Spinner = () => (
  <Icon className="animate-spin text-accent motion-reduce:animate-none">
    <path d="M10 2.5a7.5 7.5 0 1 1-7.5 7.5" />
  </Icon>
)
