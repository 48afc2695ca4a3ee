import { type ReactNode, useId } from 'react'
import { Boundary } from './Boundary.tsx'

export function Card({ heading, children }: { heading: string; children: ReactNode }) {
  const headingId = useId()
  return (
    <section aria-labelledby={headingId} className="card p-4 sm:p-6">
      <h2 id={headingId} className="text-lg font-semibold wrap-anywhere">
        {heading}
      </h2>
      <Boundary>{children}</Boundary>
    </section>
  )
}
