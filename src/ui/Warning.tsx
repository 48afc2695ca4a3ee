import type { ReactNode } from 'react'
import { WarningSign } from './icons.tsx'

/** A yellow notice of what is missing for notifications to work. */
export function Warning({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div
      role="status"
      className="flex gap-3 rounded-xl border border-warning-line bg-warning p-4 text-on-warning"
    >
      <span className="mt-0.5">
        <WarningSign />
      </span>
      <div className="flex min-w-0 flex-col gap-1">
        <p className="font-semibold">{title}</p>
        <p className="text-sm">{children}</p>
      </div>
    </div>
  )
}
