import { type ReactNode, useEffect } from 'react'

/**
 * One screen with its document title and its `h1`, which gets the focus after a navigation.
 * With an `icon`, the screen is a single message in a card.
 */
export function Screen({
  title,
  lead,
  icon,
  children,
}: {
  title: string
  lead?: string
  icon?: ReactNode
  children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Dealbell`
  }, [title])
  const heading = (
    <h1
      tabIndex={-1}
      className={`font-semibold tracking-tight text-balance wrap-anywhere outline-none ${
        icon ? 'text-xl' : 'text-2xl sm:text-3xl'
      }`}
    >
      {title}
    </h1>
  )
  if (icon) {
    return (
      <main className="flex w-full flex-1 flex-col items-center px-4 py-8 sm:px-6 sm:py-20">
        {/* Aligned left and top, so a longer message does not move the rest. */}
        <div className="card w-full max-w-lg p-6 sm:p-8">
          <span className="grid size-11 place-items-center rounded-full border border-line bg-canvas">
            {icon}
          </span>
          {heading}
          {children}
        </div>
      </main>
    )
  }
  return (
    <main className="mx-auto flex w-full max-w-3xl flex-1 flex-col gap-6 px-4 pt-8 pb-12 sm:px-6">
      <div className="flex flex-col gap-1">
        {heading}
        {lead && <p className="text-muted">{lead}</p>}
      </div>
      {children}
    </main>
  )
}
