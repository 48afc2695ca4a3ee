import type { ReactNode } from 'react'

export const Badge = ({ children }: { children: ReactNode }) => (
  <span className="rounded-full border border-line bg-canvas px-2 py-0.5 text-xs font-semibold whitespace-nowrap text-muted">
    {children}
  </span>
)
