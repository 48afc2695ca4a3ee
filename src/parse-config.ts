import { backendRoots } from '../contract/endpoints.ts'
import { originsIn } from '../contract/origins.ts'
import { defaultNames, providerIdOf, providerName } from '../contract/provider-names.ts'

export type Config = ReturnType<typeof parseConfig>

// A provider with one of these names would have the paths of another route.
const reservedNames: ReadonlySet<string> = new Set([
  ...backendRoots,
  'assets',
  'connect',
  'contact',
  'notifications',
])

/** The contact form of this project's own server, if it is the backend. */
export const standInFormAt = (apiUrl: string): string => `${apiUrl}/sandbox/contact-form`

/**
 * Reads the VITE_ settings. An unset or empty setting has its default.
 * @throws Error that lists all invalid settings.
 */
export function parseConfig(env: Readonly<Record<string, unknown>>) {
  const problems: string[] = []

  function setting(name: string, fallback: string): string {
    const value = env[name]
    return typeof value === 'string' && value.trim() !== '' ? value.trim() : fallback
  }

  function provider(settingName: keyof typeof defaultNames) {
    const name = setting(settingName, defaultNames[settingName])
    const id = providerIdOf(name)
    if (!providerName.pattern.test(name)) {
      problems.push(
        `${settingName} must be ${providerName.inWords}, because paths contain it; it is '${name}'`,
      )
    } else if (reservedNames.has(id)) {
      problems.push(`${settingName} must not be '${name}', because that path has another meaning`)
    }
    return { id, name }
  }

  const apiUrl = setting('VITE_API_URL', '').replace(/\/+$/, '')
  if (apiUrl !== '' && !isHttpUrl(apiUrl, { bare: true })) {
    problems.push(
      `VITE_API_URL must be an http(s) URL without user, query and fragment, such as https://api.example.com; it is '${apiUrl}'`,
    )
  }

  const crm = provider('VITE_CRM_NAME')
  const chat = provider('VITE_CHAT_NAME')
  if (crm.id === chat.id) {
    problems.push(`VITE_CRM_NAME and VITE_CHAT_NAME must differ; both are '${crm.id}' in paths`)
  }

  const contactFormUrl = setting('VITE_CONTACT_FORM_URL', '')
  const isPath = /^\/(?![/\\])/.test(contactFormUrl)
  if (contactFormUrl !== '' && !isPath && !isHttpUrl(contactFormUrl, { bare: false })) {
    problems.push(
      `VITE_CONTACT_FORM_URL must be an http(s) URL or a path that begins with one '/'; it is '${contactFormUrl}'`,
    )
  }

  const contactFormOrigins = originsIn(setting('VITE_CONTACT_FORM_ORIGINS', ''))
  if (!contactFormOrigins.every(isOrigin)) {
    problems.push(
      `VITE_CONTACT_FORM_ORIGINS must be an origin such as https://docs.google.com, or several with commas between; it is '${contactFormOrigins.join(',')}'`,
    )
  }

  if (problems.length > 0) {
    const error = new Error(
      `Invalid settings:\n${problems.map((problem) => `- ${problem}`).join('\n')}`,
    )
    // Vite prints the stack. Whoever corrects a setting needs only the message.
    error.stack = error.message
    throw error
  }
  return {
    /** The address of the backend without a trailing slash; empty if it is the page's own origin. */
    apiUrl,
    crm,
    chat,
    /** The form that `/contact` shows in its frame: a path on this origin or an http(s) URL. By default, the backend's. */
    contactFormUrl: contactFormUrl || standInFormAt(apiUrl),
    /** Other origins to which the form leads in the frame, by a redirect or a link. */
    contactFormOrigins,
  }
}

/** Each becomes a source of the page's policy, in which ; and * have a meaning. */
function isOrigin(text: string): boolean {
  const isPlain = /^https?:\/\/[\w.:[\]-]+$/.test(text)
  return isPlain && isHttpUrl(text, { bare: true }) && new URL(text).origin === text
}

function isHttpUrl(text: string, { bare }: { bare: boolean }): boolean {
  try {
    const { protocol, username, password, search, hash } = new URL(text)
    if (!['http:', 'https:'].includes(protocol) || username !== '' || password !== '') return false
    return !bare || (search === '' && hash === '')
  } catch {
    return false
  }
}
