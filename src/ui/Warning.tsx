import type { ReactNode } from 'react'
import { WarningSign } from './icons.tsx'

/**
 * A yellow notice of what is missing for notifications to work. Its live region is always there, because
 * screen readers announce only what changes in it. While it is empty, it takes no room and no gap.
 */
export function Warning({
  isShown,
  title,
  children,
}: {
  isShown: boolean
  title: string
  children: ReactNode
}) {
  return (
    <div role="status" className="col-span-full empty:absolute">
      {isShown && (
        <div className="flex gap-3 rounded-xl border border-warning-line bg-warning p-4 text-on-warning">
          <span className="mt-0.5">
            <WarningSign />
          </span>
          <div className="flex min-w-0 flex-col gap-1">
            <p className="font-semibold">{title}</p>
            <p className="text-sm">{children}</p>
          </div>
        </div>
      )}
    </div>
  )
}
