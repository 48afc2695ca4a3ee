/** A part of a message. Slack shows each text literally: it looks for no markup and no addresses in it. */
export type RichText =
  | { type: 'text'; text: string; style?: { bold: true } }
  | { type: 'link'; url: string; text: string; style?: { bold: true } }
  | { type: 'date'; timestamp: number; format: string; fallback: string }
  /** A mention. Slack notifies this member. */
  | { type: 'user'; user_id: string }

export interface ChatMessage {
  /** A UUID, the same for each try of this message. A chat may take a message once that it gets twice with one id. */
  id?: string | undefined
  /** The text of notifications and for screen readers, escaped for Slack. */
  text: string
  blocks: ReadonlyArray<
    | { type: 'rich_text'; elements: [{ type: 'rich_text_section'; elements: RichText[] }] }
    | { type: 'context'; elements: Array<{ type: 'plain_text'; text: string }> }
  >
}
