import openapi from './pipedrive-openapi.json' with { type: 'json' }

// Pipedrive's own description of its API, as far as Dealbell calls it.

interface Schema {
  $ref?: string
  type?: string
  nullable?: boolean
  enum?: unknown[]
  maxLength?: number
  required?: string[]
  properties?: Record<string, Schema>
  additionalProperties?: boolean
  items?: Schema
}

interface Described {
  tokens: number
  scopes?: string[]
  query?: Record<string, Schema>
  body?: Schema
  answers: Record<string, Schema>
}

const described = openapi.calls as Record<string, Described>
const schemas = openapi.schemas as Record<string, Schema>

/** What the description does not let be null or be there, though it is: by the guides, or by its own examples. */
const contradicted = new Set([
  // A deal need not have a person, a company or a date, and one that was never won has no time of it.
  ...[
    'person_id',
    'org_id',
    'stage_change_time',
    'won_time',
    'lost_time',
    'expected_close_date',
  ].map((field) => `${field}: null`),
  // Its text says null on the last page.
  'next_cursor: null',
])

const typeOf = (value: unknown) =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value

/** What is not as described. A field that is not described is wrong, too: nobody can rely on it. */
function complaints(schema: Schema, value: unknown, at: string): string[] {
  const { $ref, type, nullable, enum: values, maxLength, required = [], properties, items } = schema
  if ($ref !== undefined) return complaints(schemas[$ref] ?? {}, value, at)
  const found = typeOf(value)
  const name = at
    .split('.')
    .at(-1)
    ?.replace(/\[\d+\]/, '')
  if (value === null) {
    return nullable || contradicted.has(`${name}: null`) ? [] : [`${at}: null`]
  }
  const isOfType =
    type === undefined || type === found || (type === 'integer' && Number.isSafeInteger(value))
  if (!isOfType) return [`${at}: ${found}, not ${type}`]
  if (values !== undefined && !values.includes(value)) return [`${at}: ${value}`]
  if (maxLength !== undefined && String(value).length > maxLength) return [`${at}: too long`]
  if (Array.isArray(value)) {
    return value.flatMap((item, n) => complaints(items ?? {}, item, `${at}[${n}]`))
  }
  if (found !== 'object' || properties === undefined) return []
  const fields = Object.entries(Object(value)).filter(([, field]) => field !== undefined)
  return [
    ...required
      .filter((key) => !Object.hasOwn(Object(value), key))
      .map((key) => `${at}.${key}: missing`),
    ...fields.flatMap(([key, field]) => {
      const known = properties[key]
      return known === undefined
        ? [`${at}.${key}: not described`]
        : complaints(known, field, `${at}.${key}`)
    }),
  ]
}

/** The description of a call. @param call such as 'GET /api/v2/deals/5?limit=1'; what is before /api or /oauth is left out. */
export function describedCall(call: string) {
  const [, method, path = '', query = ''] =
    /^(\w+) .*?(\/(?:api|oauth)\/[^?]*)\??(.*)$/.exec(call) ?? []
  const name = [path, path.replace(/\/\d+(?=\/|$)/, '/{id}')]
    .map((path) => `${method} ${path}`)
    .find((name) => Object.hasOwn(described, name))
  return name === undefined
    ? undefined
    : { name, sent: new URLSearchParams(query), ...(described[name] as Described) }
}

/** What a call costs of the company's tokens of a day. */
export const tokensOf = (call: string) => describedCall(call)?.tokens ?? 0

/** What is not as described in a call of Dealbell: its address, its query and its body. */
export function complaintsOfCall(call: string, body: string): string[] {
  const found = describedCall(call)
  if (found === undefined) return [`${call}: not described`]
  const ofQuery = [...found.sent].flatMap(([key, text]) => {
    const known = found.query?.[key]
    if (known === undefined) return [`${key}: not described`]
    return complaints(known, known.type === 'integer' ? Number(text) : text, key)
  })
  const schema = found.body
  if (schema === undefined) return [...ofQuery, ...(body === '' ? [] : ['body: not described'])]
  const given = call.includes('/oauth/')
    ? Object.fromEntries(new URLSearchParams(body))
    : JSON.parse(body)
  return [...ofQuery, ...complaints(schema, given, 'body')]
}

/** What is not as described in an answer. Of most errors, only the status is known. */
export function complaintsOfAnswer(call: string, status: number, answer: unknown): string[] {
  const schema = describedCall(call)?.answers[status]
  if (schema !== undefined) return complaints(schema, answer, 'answer')
  return status < 300 ? [`${status}: not described`] : []
}

export const complaintsOfDeal = (deal: object) => complaints({ $ref: 'deal' }, deal, 'deal')
