import type { ReactNode } from 'react'

// Beside each icon stands its meaning in words, so that none needs a name of its own.
function Icon({ className = '', children }: { className?: string; children: ReactNode }) {
  return (
    <svg
      aria-hidden="true"
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth="2"
      strokeLinecap="round"
      strokeLinejoin="round"
      className={`size-5 shrink-0 ${className}`}
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
  <Icon className="mt-0.5 text-warning-sign">
    <path d="M10 3 2.5 16.5h15zM10 8v4m0 2.25v.01" />
  </Icon>
)

export const Bell = () => (
  <Icon>
    <path d="M10 3a4.5 4.5 0 0 0-4.5 4.5c0 4-1.5 5.5-1.5 5.5h12s-1.5-1.5-1.5-5.5A4.5 4.5 0 0 0 10 3Zm-1.5 12.5a1.6 1.6 0 0 0 3 0" />
  </Icon>
)

/** Something is under way; stands still for whoever wants no motion. */
export const Spinner = () => (
  <Icon className="animate-spin text-accent motion-reduce:animate-none">
    <path d="M10 2.5a7.5 7.5 0 1 1-7.5 7.5" />
  </Icon>
)

export const Unavailable = () => (
  <Icon className="text-bad">
    <path d="M3 3l14 14M6.5 6.5A5 5 0 0 0 5.3 8.6 3.6 3.6 0 0 0 6 15.5h9M9.5 5.2a5 5 0 0 1 5 3.6 3.4 3.4 0 0 1 3 4.7" />
  </Icon>
)

export const Exclamation = () => (
  <Icon className="text-bad">
    <path d="M10 5v6m0 3.5v.01" />
  </Icon>
)

export const ChainLink = () => (
  <Icon className="text-accent">
    <path d="M8.5 11.5a3.2 3.2 0 0 0 4.6 0l2.6-2.6a3.2 3.2 0 0 0-4.6-4.6l-1 1M11.5 8.5a3.2 3.2 0 0 0-4.6 0l-2.6 2.6a3.2 3.2 0 0 0 4.6 4.6l1-1" />
  </Icon>
)
