import type { ReactNode } from 'react'
import { WarningSign } from './icons.tsx'

/**
 * A yellow notice of what is missing for notifications to work. Its live region is always there, because
 * screen readers announce only what changes in it. While it is empty, it takes no room and no gap.
 */
export function Warning({
  isShown,
  isQuiet = false,
  title,
  children,
}: {
  isShown: boolean
  /** Whether it must not compete with what the user should do next. */
  isQuiet?: boolean
  title: string
  children: ReactNode
}) {
  return (
    <div role="status" className="col-span-full empty:absolute">
      {isShown && (
        <div
          className={`flex gap-3 rounded-xl border wrap-anywhere ${isQuiet ? 'border-line bg-canvas px-3 py-2' : 'border-warning-line bg-warning p-4 text-on-warning'}`}
        >
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
