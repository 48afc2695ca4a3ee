/** What names a chat in the addresses of its webhooks. What else an address has is the chat's to change. */
export interface AddressForm {
  /** What its path must match. */
  path: RegExp
  /** The same for people. `{…}` stands for what differs. */
  shown: string
  /** The parameters without which an address is not complete. */
  parameters?: readonly string[]
}

export const addressFaults = [
  ...(['too_long', 'no_address', 'scheme', 'user', 'origin', 'fragment'] as const),
  ...(['characters', 'spelling'] as const),
  /** It may be an address of the chat that has another form than we know. */
  ...(['path', 'parameter'] as const),
] as const
type AddressFault = (typeof addressFaults)[number]

export interface AddressProblem {
  fault: AddressFault
  /** For the person who has pasted the address. */
  words: string
  /** What is not understood or missing, without what may be secret. */
  part?: string
}

const longestAddress = 2_000

const problem = (fault: AddressFault, why: string): AddressProblem => ({
  fault,
  words: `Dealbell cannot use this address: ${why}`,
})

/**
 * Reads the address of a webhook. The server calls it, so nobody may lead it elsewhere: it must be at one of the origins,
 * and written as its URL is, in one line, without a user, a fragment or a character that others may read in another way.
 * @param name the chat's.
 */
export function readAddress(
  text: string,
  { origins, standInAddress }: { origins: readonly string[]; standInAddress: string | undefined },
  name: string,
): URL | AddressProblem {
  if (text.length > longestAddress)
    return problem('too_long', 'it is longer than 2,000 characters.')
  if (!URL.canParse(text)) {
    return problem('no_address', 'it is no web address. One begins with “https://”.')
  }
  const url = new URL(text)
  if (text === standInAddress) return url
  const { origin, pathname, search } = url
  const isAllowed = origins.some((allowed) => isAt(origin, allowed))
  if (!isAllowed && url.protocol !== 'https:') {
    return problem('scheme', 'it does not begin with “https://”.')
  }
  if (url.username !== '' || url.password !== '') {
    return problem('user', 'it has a user name, which ends with “@”.')
  }
  if (!isAllowed) {
    const where = origins.length > 0 ? origins.join(', ') : 'no address'
    return problem(
      'origin',
      `it is at ${origin}. For ${name}, this server calls only ${where}. Whoever runs it can change that.`,
    )
  }
  if (text.includes('#')) return problem('fragment', 'it has a “#”.')
  const [foreign] = /[^!-~]|[\\"'<>^`{|}]/u.exec(text) ?? []
  if (foreign !== undefined) {
    const isSeen = !/[\s\p{C}]/u.test(foreign)
    const what = isSeen ? `“${foreign}”` : 'a space, a line break or a character that nobody sees'
    return problem('characters', `${what} does not belong in it.`)
  }
  // Some chats write the port, although it is the usual one.
  const isAsWritten = [origin, `${origin}:443`].some((start) => text === start + pathname + search)
  const isPlain =
    /^(?:\/[\w.~:@=,+-]+)*\/?$/.test(pathname) && /^(?:\?[\w.~%!$&()*+,;=:@/-]+)?$/.test(search)
  if (isAsWritten && isPlain) return url
  const [path = ''] = /(?<=^\w+:\/\/[^/]*)\/[^?]*/.exec(text) ?? []
  const [odd] = /\/\/|\/\.\.?(?=\/|$)|%.?.?|[^\w.~:@=,+/-]/.exec(path) ?? []
  const why = odd
    ? `“${odd}” does not belong in its path.`
    : `it must be written as ${name} writes it, with its host in small letters and at most one “?”.`
  return problem('spelling', why)
}

/** @param allowed such as 'https://host' or 'https://*.domain'. */
function isAt(origin: string, allowed: string): boolean {
  const [before = '', domain] = allowed.split('*')
  if (domain === undefined) return origin === allowed
  const below = origin.slice(before.length, -domain.length)
  return (
    origin.startsWith(before) &&
    origin.endsWith(domain) &&
    /^[a-z0-9-]+(\.[a-z0-9-]+)*$/.test(below)
  )
}

/** Why an address that may be called is none of the chat's, as far as we know its form. Undefined if it is one. */
export function otherForm(
  { pathname, searchParams }: URL,
  { path, shown, parameters = [] }: AddressForm,
  name: string,
): AddressProblem | undefined {
  const words = (part: string, missing: string) => {
    const what = part
      ? `Dealbell does not know the part “${part}” of this address. It looks for “${missing}” in the address of a webhook in ${name}.`
      : `Dealbell does not find “${missing}” in this address, by which it knows a webhook in ${name}.`
    return `${what} If ${name} gives you such an address, tell whoever runs this server: ${name} may have changed its addresses.`
  }
  if (!path.test(pathname)) {
    const { unknown, missing } = differences(pathname, shown)
    const wanted = missing || shown
    return { fault: 'path', words: words(unknown, wanted), part: unknown || wanted }
  }
  const missing = parameters.find((parameter) => !searchParams.get(parameter))
  return missing === undefined
    ? undefined
    : { fault: 'parameter', words: words('', `${missing}=`), part: `${missing}=` }
}

/** What a path has that the form lacks, and the reverse. What may be secret is `…`. */
function differences(pathname: string, shown: string) {
  const segments = (text: string) => text.split('/').filter((segment) => segment !== '')
  const joined = (parts: readonly string[]) => parts.map((part) => `/${part}`).join('')
  const missing = segments(shown)
  const unknown = segments(pathname).filter((segment) => {
    const [next] = missing
    const isKnown = next?.startsWith('{') || next === segment
    if (isKnown) missing.shift()
    return !isKnown
  })
  // No secret of a chat is so short a word.
  const harmless = unknown.map((each) => (/^(?:[a-z-]{1,16}|v?\d{1,3})$/i.test(each) ? each : '…'))
  return { unknown: joined(harmless), missing: joined(missing) }
}
