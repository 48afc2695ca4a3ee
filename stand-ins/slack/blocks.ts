import * as v from 'valibot'

/** Slack refuses a text of spaces, too. */
const someText = v.pipe(v.string(), v.regex(/\S/, 'must be more than 0 characters'))
const characters = (most: number) => v.pipe(someText, v.maxLength(most))
const plainText = (most: number) =>
  v.strictObject({
    type: v.literal('plain_text'),
    text: characters(most),
    emoji: v.optional(v.boolean()),
  })

const blockId = { block_id: v.optional(v.pipe(v.string(), v.maxLength(255))) }
const url = v.pipe(v.string(), v.url(), v.maxLength(3_000))
const image = { image_url: url, alt_text: v.pipe(v.string(), v.maxLength(2_000)) }

const flag = v.optional(v.boolean())
const style = v.optional(
  v.strictObject({ bold: flag, code: flag, italic: flag, strike: flag, underline: flag }),
)
const richText = v.variant('type', [
  v.strictObject({ type: v.literal('text'), text: someText, style }),
  v.strictObject({ type: v.literal('link'), url, text: v.optional(someText), style }),
  v.strictObject({
    type: v.literal('user'),
    user_id: v.pipe(v.string(), v.regex(/^[UW][A-Z0-9]+$/)),
    style,
  }),
  v.strictObject({
    type: v.literal('date'),
    timestamp: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1e12)),
    format: someText,
    fallback: v.optional(someText),
    style,
  }),
])

const button = v.strictObject({
  type: v.literal('button'),
  text: plainText(75),
  url: v.optional(url),
  value: v.optional(v.pipe(v.string(), v.maxLength(2_000))),
  action_id: v.optional(v.pipe(v.string(), v.maxLength(255))),
  style: v.optional(v.picklist(['primary', 'danger'])),
})
const imageElement = v.strictObject({ type: v.literal('image'), ...image })
const elements = <Element extends v.GenericSchema>(element: Element, most: number) =>
  v.pipe(v.array(element), v.minLength(1), v.maxLength(most))

/**
 * Slack's limits for the blocks that a message may have. Some kinds of blocks are missing. Text of the kind
 * `mrkdwn` is refused, because text from a CRM could become markup in it.
 */
const block = v.variant('type', [
  v.pipe(
    v.strictObject({
      type: v.literal('section'),
      ...blockId,
      text: v.optional(plainText(3_000)),
      fields: v.optional(elements(plainText(2_000), 10)),
      accessory: v.optional(v.variant('type', [button, imageElement])),
      expand: v.optional(v.boolean()),
    }),
    v.check(({ text, fields }) => text !== undefined || fields !== undefined, 'no text, no fields'),
  ),
  v.strictObject({
    type: v.literal('rich_text'),
    ...blockId,
    elements: elements(
      v.strictObject({ type: v.literal('rich_text_section'), elements: elements(richText, 1_000) }),
      1_000,
    ),
  }),
  v.strictObject({ type: v.literal('header'), ...blockId, text: plainText(150) }),
  v.strictObject({
    type: v.literal('context'),
    ...blockId,
    elements: elements(v.union([plainText(3_000), imageElement]), 10),
  }),
  v.strictObject({ type: v.literal('actions'), ...blockId, elements: elements(button, 25) }),
  v.strictObject({ type: v.literal('image'), ...blockId, ...image }),
  v.strictObject({ type: v.literal('divider'), ...blockId }),
])

const blocks = v.pipe(
  v.array(block),
  v.maxLength(50),
  v.check((some) => {
    const ids = some.flatMap(({ block_id }) => block_id ?? [])
    return new Set(ids).size === ids.length
  }, 'block_id already exists'),
)
export type Blocks = v.InferOutput<typeof blocks>

/** The most characters of a message's text. */
const longestText = 40_000
/** Slack does not document how much the blocks may have together. It refused 11,000 characters. */
const longestBlocks = 11_000

/** Slack's refusal of a message: its error code, and what is wrong with the blocks. */
interface Refusal {
  error:
    | 'no_text'
    | 'invalid_blocks_format'
    | 'invalid_blocks'
    | 'msg_blocks_too_long'
    | 'msg_too_long'
  messages: string[]
}

/**
 * Reads the blocks of a message as Slack does.
 * @param blocksOrJson the value of the call, or its JSON; empty if the message has only a text.
 */
export function readBlocks(text: string, blocksOrJson: unknown): Blocks | Refusal {
  if (text.length > longestText) return { error: 'msg_too_long', messages: [] }
  const given = blocksOrJson === '' ? undefined : blocksOrJson
  if (given === undefined) return text === '' ? { error: 'no_text', messages: [] } : []
  const array = v.safeParse(v.array(v.unknown()), typeof given === 'string' ? parsed(given) : given)
  if (!array.success) return { error: 'invalid_blocks_format', messages: [] }
  const read = v.safeParse(blocks, array.output)
  if (!read.success) {
    const messages = read.issues.map(
      (issue) => `[ERROR] ${issue.message} [json-pointer:/blocks/${pointer(issue)}]`,
    )
    return { error: 'invalid_blocks', messages }
  }
  if (JSON.stringify(read.output).length > longestBlocks) {
    return { error: 'msg_blocks_too_long', messages: [] }
  }
  if (text === '' && read.output.length === 0) return { error: 'no_text', messages: [] }
  return read.output
}

const pointer = (issue: v.BaseIssue<unknown>) =>
  (issue.path ?? []).map(({ key }) => String(key)).join('/')

function parsed(json: string): unknown {
  const result = v.safeParse(v.pipe(v.string(), v.parseJson()), json)
  return result.success ? result.output : undefined
}
