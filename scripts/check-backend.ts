// Checks whether a backend answers what the dashboard calls: npm run check:backend -- https://backend.example
import { parseArgs, stripVTControlCharacters, styleText } from 'node:util'
import { providerIdOf, providerName } from '../contract/provider-names.ts'
import { loadEnvironment } from '../server/settings/environment.ts'
import { createChecks, type Outcome, runCheck } from '../tests/contract/checks.ts'
import { type Exchange, openClient, type Target } from '../tests/contract/client.ts'

const usage = `Usage: npm run check:backend -- URL [options]

URL is the address of the backend, as in VITE_API_URL.

  --crm NAME       the CRM's name, as in VITE_CRM_NAME (HubSpot)
  --chat NAME      the chat's name, as in VITE_CHAT_NAME (Slack)
  --origin ORIGIN  the dashboard's origin, if it is not the backend's: also checks CORS
  --cookie COOKIE  a session: NAME=VALUE of one or more cookies, separated by ';'
  --write          also saves rules, and restores the old ones
  --timeout SECS   how long an answer may take (10, as in the dashboard)
  --help           shows this help

Exit code: 0 if no check failed, 1 if one failed, 2 for wrong usage.
docs/backend.md explains the checks.`

const signs = {
  passed: styleText('green', '✓'),
  failed: styleText('red', '✗'),
  warning: styleText('yellow', '!'),
  'not run': styleText('gray', '-'),
} satisfies Record<Outcome['result'], string>

/** A longer header or body is shortened. */
const shownCharacters = 300

async function run(): Promise<number> {
  loadEnvironment()
  const settings = readArguments()
  if (typeof settings === 'string') {
    console.error(`${settings}\n\n${usage}`)
    return 2
  }
  if (settings === undefined) {
    console.log(usage)
    return 0
  }
  const { target, write } = settings

  const { url, crm, chat, origin } = target
  const page = origin === undefined ? '' : `, with the dashboard at ${origin}`
  console.log(`Checks ${url} for ${crm.name} and ${chat.name}${page}`)

  const backend = openClient(target)
  const outcomes: Outcome[] = []
  const left = { origin: 0, write: 0, kept: 0 }
  for (const check of createChecks(target)) {
    if (check.needs !== undefined && !(check.needs === 'write' ? write : origin)) {
      left[check.needs]++
      continue
    }
    // Of the checks that save, the first says whether a save is kept. The others would say the same.
    const ofSave = outcomes.find((outcome) => outcome.check.needs === 'write')
    if (check.needs === 'write' && ofSave?.result === 'failed') {
      left.kept++
      continue
    }
    const outcome = await runCheck(check, backend)
    // Without a connection, every other check would say the same.
    if (outcomes.length === 0 && outcome.finding?.isUnreachable) {
      console.error(`${url} cannot be reached. ${outcome.finding.message}`)
      return 1
    }
    outcomes.push(outcome)
    print(outcome, backend.secrets)
  }

  const skipped = signs['not run']
  if (left.write > 0) console.log(`${skipped} Checks that need --write: ${left.write}.`)
  if (left.kept > 0) console.log(`${skipped} Checks that need saves that are kept: ${left.kept}.`)
  if (left.origin > 0) console.log(`${skipped} Checks that need --origin: ${left.origin}.`)
  console.log(`${skipped} Disconnecting and a callback with a code are never called.`)
  const count = (result: Outcome['result']) =>
    outcomes.filter((outcome) => outcome.result === result).length
  const notRun = count('not run') + left.write + left.kept + left.origin
  console.log(
    `\n${count('passed')} passed, ${count('failed')} failed, ${count('warning')} with a warning, ${notRun} not run`,
  )
  return count('failed') > 0 ? 1 : 0
}

/** The settings; a sentence if they are wrong; undefined if help is wanted. */
function readArguments(): { target: Target; write: boolean } | string | undefined {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        crm: { type: 'string', default: 'HubSpot' },
        chat: { type: 'string', default: 'Slack' },
        origin: { type: 'string' },
        cookie: { type: 'string' },
        write: { type: 'boolean', default: false },
        timeout: { type: 'string', default: '10' },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) return undefined
    const [address, ...others] = positionals
    if (address === undefined || others.length > 0) return 'Name the address of one backend.'
    const url = httpUrl(address)
    if (url === undefined || url.search !== '' || url.hash !== '') {
      return `The address must be an http(s) URL without user, query and fragment; it is '${address}'.`
    }
    const origin = values.origin === undefined ? undefined : httpUrl(values.origin)
    if (values.origin !== undefined && (origin === undefined || origin.pathname !== '/')) {
      return `--origin must be an origin such as https://dashboard.example; it is '${values.origin}'.`
    }
    for (const name of [values.crm, values.chat]) {
      if (!providerName.pattern.test(name)) {
        return `A provider's name must be ${providerName.inWords}; it is '${name}'.`
      }
    }
    const [crm, chat] = [values.crm, values.chat].map((name) => ({ id: providerIdOf(name), name }))
    if (crm === undefined || chat === undefined || crm.id === chat.id) {
      return `--crm and --chat must differ; both are '${crm?.id}' in paths.`
    }
    if (values.cookie !== undefined && !/^[\x21-\x7e]+=[\x20-\x7e]*$/.test(values.cookie)) {
      return '--cookie must be NAME=VALUE.'
    }
    const timeoutMs = Math.round(Number(values.timeout) * 1000)
    if (!(timeoutMs >= 1 && timeoutMs <= 600_000)) return '--timeout must be a number of seconds.'
    return {
      target: {
        url: url.href.replace(/\/+$/, ''),
        crm,
        chat,
        // The backend's own origin needs no CORS.
        origin: origin?.origin === url.origin ? undefined : origin?.origin,
        cookie: values.cookie,
        timeoutMs,
      },
      write: values.write,
    }
  } catch (error) {
    // parseArgs throws only for wrong arguments.
    return error instanceof Error ? error.message : String(error)
  }
}

function httpUrl(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  return isHttp && url.username === '' && url.password === '' ? url : undefined
}

function print({ check, result, finding }: Outcome, secrets: ReadonlySet<string>): void {
  console.log(`${signs[result]} ${check.name}`)
  if (finding === undefined) return
  const { message, exchange } = finding
  console.log(`    ${safe(message, secrets)}`)
  if (result === 'not run') return
  if (exchange !== undefined) {
    for (const [label, text] of described(exchange)) {
      // Hide secrets before shortening: a part of a secret would not be found.
      const shown = safe(text, secrets)
      const isLong = shown.length > shownCharacters
      console.log(
        `    ${label.padEnd(10)}${isLong ? `${shown.slice(0, shownCharacters)} …` : shown}`,
      )
    }
  }
  const [section = ''] = check.specification.split(' ', 1)
  console.log(`    ${section.padEnd(9)}${check.specification.slice(section.length)}`)
}

const shownHeader = /^(content-type|location|allow|access-control-.*)$/

function described({ method, url, headers, body, answer }: Exchange): Array<[string, string]> {
  const lines: Array<[label: string, text: string]> = [['sent', `${method} ${url}`]]
  for (const [name, value] of headers) {
    lines.push(['', `${name}: ${name === 'cookie' ? value.replaceAll(/=[^;]*/g, '=…') : value}`])
  }
  if (body !== undefined) lines.push(['', body])
  if (answer === undefined) return [...lines, ['came back', 'nothing']]

  lines.push(['came back', `${answer.status}${answer.url === url ? '' : ` from ${answer.url}`}`])
  for (const [name, value] of answer.headers) {
    if (shownHeader.test(name)) lines.push(['', `${name}: ${value}`])
  }
  for (const cookie of answer.headers.getSetCookie()) {
    lines.push(['', `set-cookie: ${cookie.replace(/=[^;]*/, '=…')}`])
  }
  if (answer.body !== '') lines.push(['', answer.body])
  return lines
}

/** Text from outside as one line, without cookies, codes and control characters. */
function safe(text: string, secrets: ReadonlySet<string>): string {
  let shown = text
  for (const secret of secrets) {
    // A shorter value could be a part of any word.
    if (secret.length > 3) shown = shown.replaceAll(secret, '…')
  }
  return stripVTControlCharacters(shown)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .replaceAll(/([?&](?:code|state|code_challenge|[a-z_]*token|[a-z_]*secret)=)[^&#\s"]*/gi, '$1…')
    .replaceAll(/("(?:[a-z_]*token|[a-z_]*secret)": *")[^"]*/gi, '$1…')
}

process.exitCode = await run()
