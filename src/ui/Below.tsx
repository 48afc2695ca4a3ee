import type { ReactNode } from 'react'
import { Boundary } from './Boundary.tsx'

/** A part below a connection. It has its place before its data comes, so that nothing moves, and none if it is empty. */
export const Below = ({ children }: { children: ReactNode }) => (
  <div className="below-connection">
    <Boundary>{children}</Boundary>
  </div>
)
