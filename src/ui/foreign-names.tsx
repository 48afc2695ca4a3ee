import type { ReactNode } from 'react'

// The names of others stand in `bdi`: a Hebrew or Arabic one would change places with the words around it.

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
