import { html } from 'hono/html'
import * as v from 'valibot'
import type { StandInChat } from '../by-address.ts'

// What Dealbell sends of Adaptive Cards 1.4. Teams shows nothing of an element that it does not know.
const textRun = v.strictObject({
  type: v.literal('TextRun'),
  text: v.pipe(v.string(), v.nonEmpty()),
  weight: v.optional(v.literal('Bolder')),
  size: v.optional(v.literal('Small')),
  color: v.optional(v.literal('Accent')),
  isSubtle: v.optional(v.boolean()),
  selectAction: v.optional(
    v.strictObject({ type: v.literal('Action.OpenUrl'), url: v.pipe(v.string(), v.url()) }),
  ),
})
const richTextBlock = v.strictObject({
  type: v.literal('RichTextBlock'),
  spacing: v.optional(v.picklist(['None', 'Default', 'Medium'])),
  inlines: v.array(textRun),
})
const message = v.object({
  type: v.literal('message'),
  attachments: v.strictTuple([
    v.object({
      contentType: v.literal('application/vnd.microsoft.card.adaptive'),
      content: v.object({
        type: v.literal('AdaptiveCard'),
        version: v.literal('1.4'),
        fallbackText: v.string(),
        body: v.array(richTextBlock),
      }),
    }),
  ]),
})

const error = (code: string, message: string) => ({ error: { code, message } })
const longestCard = 28 * 1024

/** A workflow that posts each card to a channel. */
export const standInTeams: StandInChat = {
  webhook:
    '/powerautomate/automations/direct/cu/22/workflows/0123456789abcdef0123456789abcdef/triggers/manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=stand-in',
  read({ body }) {
    if (Buffer.byteLength(JSON.stringify(body ?? '')) > longestCard) {
      return { status: 413, error: error('RequestEntityTooLarge', 'The message is too large.') }
    }
    const { success, output } = v.safeParse(message, body)
    if (!success) {
      return { status: 400, error: error('TriggerInputSchemaMismatch', 'The input is no card.') }
    }
    const [{ content }] = output.attachments
    return { shown: html`${content.body.map(shownBlock)}` }
  },
  accepted: { status: 202, body: '' },
  unknown: error('Unheard', 'Unheard.'),
  deleted: { status: 404, error: error('WorkflowNotFound', 'The workflow could not be found.') },
}

function shownBlock({ inlines }: v.InferOutput<typeof richTextBlock>) {
  return html`<p class="${inlines.some(({ isSubtle }) => isSubtle) ? 'muted' : 'lines'}">${inlines.map(shownRun)}</p>`
}

function shownRun({ text, weight, selectAction }: v.InferOutput<typeof textRun>) {
  const shown = selectAction ? html`<a href="${selectAction.url}">${text}</a>` : html`${text}`
  return weight ? html`<strong>${shown}</strong>` : shown
}
