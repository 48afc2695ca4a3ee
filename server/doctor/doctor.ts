import { parseArgs, styleText } from 'node:util'
import { lackOfMemory } from '../database/memory.ts'
import { isLoopback } from '../http/origin.ts'
import { doctors } from '../providers/doctors.ts'
import { type Finding, note, warning } from '../providers/provider-doctor.ts'
import { addressIds, named, oauthIds, registry, settingOf, usedOf } from '../providers/registry.ts'
import { loadEnvironment, readOutside } from '../settings/environment.ts'
import { endWithReader, shownError } from '../settings/open-errors.ts'
import { type Addresses, parseEnv, type Settings } from '../settings/settings.ts'
import { expandHome } from '../settings/text-file.ts'
import { checkContactForm, checkDashboard, checkDatabase, checkWatched } from './checks.ts'
import { appOf, listed, writeManifests } from './manifests.ts'

const choosing = oauthIds.filter((id) => doctors[id].distributions)
const distributions = choosing.flatMap((id) => doctors[id].distributions ?? [])

const usage = `Usage:
  npm run doctor
    checks addresses, credentials and the network; changes nothing
  npm run doctor -- manifests [FOLDER]
    writes the files of the apps at ${listed(named(oauthIds))}

Options of manifests:
  --distribution ${distributions.join('|')}  who may install the ${listed(named(choosing))} app (${distributions.at(-1)})
  --force                             overwrites files

FOLDER is dealbell-apps by default. docs/connecting.md explains the files.
Exit code: 0 if nothing is wrong, 1 if something is, 2 for wrong usage.`

const signs = {
  right: styleText('green', '✓'),
  note: styleText('blue', 'i'),
  warning: styleText('yellow', '!'),
  wrong: styleText('red', '✗'),
} satisfies Record<Finding['kind'], string>

endWithReader()
try {
  loadEnvironment()
  process.exitCode = await run()
} catch (error) {
  console.error(shownError(error))
  process.exitCode = 1
}

async function run(): Promise<number> {
  const request = readArguments()
  if (request === undefined) {
    console.error(usage)
    return 2
  }
  // Before the apps exist, there are no client ids. Nothing starts here, so stand-ins are safe.
  const forManifests = { ...process.env, ALLOW_STAND_INS: 'true' }
  const settings = parseEnv(request.command === 'check' ? process.env : forManifests)
  const addresses = settings.addressesAt(settings.port)
  if (request.command === 'check') return await examine(settings, addresses)
  const { written, isNeeded } = await writeManifests(addresses, request)
  for (const path of written) console.log(`wrote ${path}`)
  if (!isNeeded) console.log('None of your services needs such a file (docs/connecting.md).')
  else if (written.length === 0) console.log(`The files in ${request.folder} are right already.`)
  return 0
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        distribution: { type: 'string' },
        force: { type: 'boolean', default: false },
      },
    })
    const [command, folder = 'dealbell-apps', ...more] = positionals
    if (command === undefined) return { command: 'check' } as const
    const { distribution, force } = values
    if (distribution !== undefined && !distributions.includes(distribution)) return undefined
    if (command !== 'manifests' || more.length > 0) return undefined
    return { command, folder: expandHome(folder), distribution, force } as const
  } catch {
    return undefined
  }
}

/** Prints one line for each finding. @returns the exit code. */
async function examine({ databaseUrl }: Settings, addresses: Addresses): Promise<number> {
  let isWrong = false
  for await (const { kind, text } of check(databaseUrl, addresses)) {
    console.log(`${signs[kind]} ${text}`)
    isWrong ||= kind === 'wrong'
  }
  return isWrong ? 1 : 0
}

async function* check(
  databaseUrl: string | undefined,
  addresses: Addresses,
): AsyncGenerator<Finding> {
  yield* outside()
  const lack = databaseUrl === undefined ? lackOfMemory(false) : undefined
  if (lack !== undefined) yield warning(lack)
  if (databaseUrl !== undefined) yield await checkDatabase(databaseUrl)
  const { providers } = addresses
  const standIns = oauthIds.filter((id) => providers[id].standIn)
  for (const id of standIns) {
    yield warning(
      `${registry[id].name} is a stand-in on this server. Set ${settingOf(id, 'CLIENT_ID')} and ${settingOf(id, 'CLIENT_SECRET')} for the real one (docs/connecting.md).`,
    )
  }
  yield await checkDashboard(addresses)
  const watched = await checkWatched(addresses)
  if (watched !== undefined) yield watched
  const { VITE_CONTACT_FORM_URL: form, VITE_CONTACT_FORM_ORIGINS: origins = '' } = process.env
  const formUrl = URL.parse(form?.trim() ?? '', addresses.appUrl)
  if (form?.trim() && formUrl !== null) yield await checkContactForm(formUrl, origins)
  else if (standIns.length === 0 && !isLoopback(new URL(addresses.appUrl).hostname)) {
    yield warning(
      'The page /contact has no form. Set VITE_CONTACT_FORM_URL, and build the dashboard again.',
    )
  }
  for (const id of usedOf(providers, oauthIds)) {
    // A stand-in needs neither a public address nor credentials.
    if (standIns.includes(id)) continue
    for (const check of doctors[id].checks) yield await check(appOf(addresses, id))
  }
  for (const id of usedOf(providers, addressIds)) {
    const { origins, standIn } = providers[id]
    const places = standIn ? [...origins, 'its stand-in on this server'] : origins
    const text = `${registry[id].name} needs no app. Addresses of webhooks are taken at ${listed(places)}.`
    yield standIn ? warning(text) : note(text)
  }
}

/** How calls leave this machine. The other checks show whether they do. */
function outside(): Finding[] {
  const { proxies, direct, authorities } = readOutside(process.env)
  const findings = Object.entries(proxies).map(([name, url]) => {
    const { protocol, host } = new URL(url)
    return note(`${name} is ${protocol}//${host}. Calls to these hosts do without: ${direct}.`)
  })
  if (authorities === undefined) return findings
  const text = `NODE_EXTRA_CA_CERTS is ${authorities}, whose authorities count, too.`
  return [...findings, note(text)]
}
