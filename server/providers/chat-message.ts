/** A part of a message. Slack shows each text literally: it looks for no markup and no addresses in it. */
export type RichText =
  | { type: 'text'; text: string; style?: { bold: true } }
  | { type: 'link'; url: string; text: string; style?: { bold: true } }
  | { type: 'date'; timestamp: number; format: string; fallback: string }
  /** A mention. Slack notifies this member. */
  | { type: 'user'; user_id: string }

export interface ChatMessage {
  /** The text of notifications and for screen readers, escaped for Slack. */
  text: string
  blocks: ReadonlyArray<
    | { type: 'rich_text'; elements: [{ type: 'rich_text_section'; elements: RichText[] }] }
    | { type: 'context'; elements: Array<{ type: 'plain_text'; text: string }> }
  >
}
