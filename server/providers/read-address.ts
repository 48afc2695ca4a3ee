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
  'too_long',
  'no_address',
  'scheme',
  'user',
  'origin',
  'fragment',
  'characters',
  'spelling',
  'path',
  'parameter',
] as const
type AddressFault = (typeof addressFaults)[number]

export interface AddressProblem {
  fault: AddressFault
  /** For the person who has pasted the address. */
  words: string
  /** What is not understood or missing, without what may be secret. With it, the chat may have changed its addresses. */
  part?: string
}

const longestAddress = 2_000

const problem = (fault: AddressFault, why: string, part?: string): AddressProblem => ({
  fault,
  words: `Dealbell cannot use this address: ${why}`,
  ...(part !== undefined && { part }),
})

/**
 * Reads the address of a webhook. The server calls it, so nobody may lead it elsewhere: it must be at one of the origins,
 * in the normal form that a URL parser gives, in one line, without a user, a fragment or a character that others may read in
 * another way. Only its scheme and host may have capitals, and `:443` and a “?” without parameters may stand in it.
 * @param name the chat's.
 * @returns the address in its normal form, which is what may be called.
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
    return problem('user', 'it contains “@” before the host.')
  }
  if (!isAllowed && origins.length === 0) {
    const words = `No address of ${name} may be used on this server yet. Whoever runs it can allow some.`
    return { fault: 'origin', words, part: url.host }
  }
  if (!isAllowed) {
    return problem(
      'origin',
      `it is at ${origin}. For ${name}, this server calls only ${origins.join(', ')}. Whoever runs it can change that.`,
      url.host,
    )
  }
  if (text.includes('#')) return problem('fragment', 'it has a “#”.', '#')
  const [foreign] = /[^!-~]|[\\"'<>^`{|}]/u.exec(text) ?? []
  if (foreign !== undefined) {
    const isSeen = !/[\s\p{C}]/u.test(foreign)
    const what = isSeen ? `“${foreign}”` : 'a space, a line break or a character that nobody sees'
    const code = foreign.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')
    return problem('characters', `${what} does not belong in it.`, `U+${code}`)
  }
  const [, start = '', path = '', query = ''] = /^(\w+:\/\/[^/?]*)([^?]*)\??(.*)$/.exec(text) ?? []
  const odd = oddIn(path)
  if (odd !== undefined) return problem('spelling', `“${odd}” does not belong in its path.`, odd)
  const [oddest] = /[^\w.~%!$&()*+,;=:@/-]/.exec(query) ?? []
  if (oddest !== undefined) {
    return problem('spelling', `“${oddest}” does not belong in its parameters.`, oddest)
  }
  // Some chats write the port, although it is the usual one.
  const isStart = [origin, `${origin}:443`].includes(start.toLowerCase())
  if (!isStart || path !== pathname || query !== search.slice(1)) {
    return problem('spelling', `it must begin with “${origin}/”.`, start)
  }
  // What is called has no lone “?”.
  url.search = search
  return url
}

/**
 * What programs on the way to the chat may read in another way in a path: an empty segment, '..', a segment such as '..;'
 * that some take for it, an encoded character of ASCII, and what is no visible text in UTF-8.
 */
function oddIn(path: string): string | undefined {
  const [odd] =
    /\/\/|\/\.\.?(?=\/|;|$);?|%(?![89a-f][\da-f])(?:..?)?|[^\w.~:@=,+/%!$&()*;-]/i.exec(path) ?? []
  if (odd !== undefined) return odd
  const encoded = path.match(/(?:%..)+/g) ?? []
  return encoded.find((part) => !isVisible(part))
}

/** Whether the encoded text shows, and no one takes a part of it for ASCII, as for the full width of a dot or a slash. */
function isVisible(encoded: string): boolean {
  try {
    return !/[\p{C}\p{Z}!-/:-@[-`{-~]/u.test(decodeURIComponent(encoded).normalize('NFKC'))
  } catch {
    return false
  }
}

const plainName = (parameter: string) => parameter.replaceAll('_', '').toLowerCase()

/** How an address writes the name of a parameter. APIs of Google take `thread_key` for `threadKey`. */
export function spellingsOf(parameter: string, { searchParams }: URL): string[] {
  const names = new Set(searchParams.keys())
  return [...names].filter((name) => plainName(name) === plainName(parameter))
}

/** The value of a parameter in any spelling. Undefined if it is empty. */
export function parameterOf(address: URL, parameter: string): string | undefined {
  const values = spellingsOf(parameter, address).map((name) => address.searchParams.get(name))
  return values.find((value) => value !== null && value !== '') ?? undefined
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
  address: URL,
  { path, shown, parameters = [] }: AddressForm,
  name: string,
): AddressProblem | undefined {
  const words = (part: string, missing: string) => {
    const what = part
      ? `Dealbell does not know the part “${part}” of this address. It looks for “${missing}” in the address of a webhook in ${name}.`
      : `An address of a webhook in ${name} contains “${missing}”. This one does not.`
    return `${what} If ${name} gives you such an address, tell whoever runs this server: ${name} may have changed its addresses.`
  }
  if (!path.test(address.pathname)) {
    const { unknown, missing } = differences(address.pathname, shown)
    const wanted = missing || shown
    return { fault: 'path', words: words(unknown, wanted), part: unknown || wanted }
  }
  const missing = parameters.find((parameter) => !parameterOf(address, parameter))
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
