import { type ReactNode, useEffect } from 'react'

/** One screen: its document title and its `h1`, which takes the focus when the screen is navigated to. */
export function Screen({
  title,
  lead,
  children,
}: {
  title: string
  lead?: string
  children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Dealbell`
  }, [title])

  return (
    <main className="mx-auto flex w-full max-w-3xl flex-1 flex-col gap-6 px-4 pt-8 pb-12 sm:px-6">
      <div className="flex flex-col gap-1">
        <h1
          tabIndex={-1}
          className="text-2xl font-semibold tracking-tight text-balance wrap-anywhere outline-none sm:text-3xl"
        >
          {title}
        </h1>
        {lead && <p className="text-muted">{lead}</p>}
      </div>
      {children}
    </main>
  )
}

/** Puts the focus on the screen's heading, so that keyboard and screen reader go on from there. */
export function focusHeading(): void {
  document.querySelector('h1')?.focus()
}
