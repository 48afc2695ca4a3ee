import type { ReactNode } from 'react'

// Names that others wrote stand in `bdi`. Otherwise, a Hebrew or Arabic name swaps places with the words around it.

/** 'Sent to #sales' */
export function SentTo({ channel }: { channel: string | null }) {
  return (
    <>
      <span>{channel ? 'Sent to ' : 'Sent'}</span>
      {channel && <bdi>{channel}</bdi>}
    </>
  )
}

/** ' · tried 2 times'. Nothing without a text. */
export function Fact({ children }: { children: ReactNode }) {
  return (
    children && (
      <>
        <span> · </span>
        <span>{children}</span>
      </>
    )
  )
}
