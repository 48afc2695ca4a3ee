import { type ReactNode, useId } from 'react'

export function Card({ heading, children }: { heading: string; children: ReactNode }) {
  const headingId = useId()
  return (
    <section
      aria-labelledby={headingId}
      className="flex flex-col gap-4 rounded-2xl border border-line bg-surface p-4 shadow-xs sm:p-6"
    >
      <h2 id={headingId} className="text-lg font-semibold">
        {heading}
      </h2>
      {children}
    </section>
  )
}
