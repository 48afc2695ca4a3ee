import { useState } from 'react'
import { ended } from './words.ts'

export type Refusal = { code: string | undefined; message: string } | null

/**
 * Why the backend refused a read, in its own sentence; empty if it did not say. A query without data forgets its error
 * while it tries again, so this keeps it.
 */
export function useRefusal(error: Refusal): string {
  const [last, setLast] = useState(error)
  if (error !== null && error !== last) setLast(error)
  return last?.code === undefined ? '' : ended(last.message)
}
