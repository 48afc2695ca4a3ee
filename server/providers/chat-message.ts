/** A part of a paragraph. Nothing in it is escaped: each chat shows all text literally, in its own way. */
export type Part =
  | { type: 'text'; text: string; bold?: true }
  | { type: 'link'; url: string; text: string; bold?: true }
  /** In the reader's time zone, where the chat can show that. */
  | { type: 'date'; at: Date; withTime: boolean }
  /** A mention, by the member's id in the chat. The chat notifies this member. */
  | { type: 'member'; id: string }

/** What a message says. Each chat turns it into its own form. */
export interface ChatMessage {
  /** The text of notifications and for screen readers. It is the whole message if there are no paragraphs. */
  text: string
  /** A paragraph can have several lines. None of its texts is empty. */
  paragraphs: ReadonlyArray<readonly Part[]>
  /** Small print below the paragraphs. */
  footer: readonly string[]
}

/**
 * What a message is about. With the form of the message, it makes an id that is the same for each try (`uuidOf`). So a
 * chat can take a message once that it gets twice.
 */
export type MessageKey = readonly unknown[]

/** A date for chats that do not know the reader's time zone: '2027-01-31 UTC' or '2027-01-31 22:00 UTC'. */
export function dateInUtc({ at, withTime }: Extract<Part, { type: 'date' }>): string {
  const iso = at.toISOString()
  return `${iso.slice(0, 10)}${withTime ? ` ${iso.slice(11, 16)}` : ''} UTC`
}

/** Divides a paragraph at its line breaks, for chats that have none in a text. */
export function linesOf(parts: readonly Part[]): Part[][] {
  const lines: Part[][] = [[]]
  for (const part of parts) {
    const [first = '', ...others] = 'text' in part ? part.text.split('\n') : ['']
    const piece = (text: string) => ('text' in part ? { ...part, text } : part)
    if (!('text' in part) || first !== '') lines.at(-1)?.push(piece(first))
    for (const text of others) lines.push(text === '' ? [] : [piece(text)])
  }
  return lines
}
