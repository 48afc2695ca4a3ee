import { existsSync } from 'node:fs'
import { lstat, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import * as v from 'valibot'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { optionalScopes, requiredScopes } from '../providers/hubspot/oauth.ts'
import { propertyNames } from '../providers/hubspot/properties.ts'
import { botScopes } from '../providers/slack/oauth.ts'
import { watchedProperties } from '../relay/decide/rules.ts'
import type { Addresses } from '../settings/settings.ts'

/** The address at which HubSpot calls this server. It signs this address, so each character counts. */
export const webhookUrl = ({ apiUrl }: Addresses): string => `${apiUrl}/webhooks/hubspot`

const description = 'Tells a Slack channel when a HubSpot deal moves.'

/** Who may install the HubSpot app. After the first upload, only private can become marketplace. */
export const distributions = ['marketplace', 'private'] as const
type Distribution = (typeof distributions)[number]

const appFile = 'src/app/app-hsmeta.json'
const earlierApp = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({ config: v.object({ distribution: v.picklist(distributions) }) }),
)

function manifests(addresses: Addresses, distribution: Distribution): Record<string, object> {
  const slackScopes = botScopes(addresses.providers.slack)
  const redirectUrl = (id: string) => addresses.appUrl + pathOf(navigations.callbackPage, id)
  return {
    'hsproject.json': { name: 'dealbell', srcDir: 'src', platformVersion: '2026.03' },
    [appFile]: {
      uid: 'dealbell_app',
      type: 'app',
      config: {
        name: 'Dealbell',
        description,
        distribution,
        auth: {
          type: 'oauth',
          redirectUrls: [redirectUrl('hubspot')],
          requiredScopes,
          optionalScopes,
          conditionallyRequiredScopes: [],
        },
        permittedUrls: { fetch: [], iframe: [], img: [] },
      },
    },
    'src/app/webhooks/webhooks-hsmeta.json': {
      uid: 'dealbell_webhooks',
      type: 'webhooks',
      config: {
        settings: { targetUrl: webhookUrl(addresses), maxConcurrentRequests: 10 },
        subscriptions: {
          // Only here: with an entry in `legacyCrmObjects` too, HubSpot sends each change twice.
          crmObjects: [...watchedProperties].map((property) => ({
            subscriptionType: 'object.propertyChange',
            objectType: 'deal',
            propertyName: propertyNames[property],
            active: true,
          })),
          legacyCrmObjects: [],
          hubEvents: [],
        },
      },
    },
    'slack-manifest.json': {
      display_information: { name: 'Dealbell', description },
      features: { bot_user: { display_name: 'dealbell', always_online: true } },
      oauth_config: {
        redirect_urls: [redirectUrl('slack')],
        scopes: { bot: [...slackScopes.required, ...slackScopes.optional] },
      },
      settings: {
        org_deploy_enabled: false,
        socket_mode_enabled: false,
        token_rotation_enabled: false,
      },
    },
  }
}

interface Request {
  folder: string
  /** If undefined, that of the files in the folder, or `marketplace`. */
  distribution: Distribution | undefined
  /** Whether to overwrite files with another content. */
  force: boolean
}

/** @returns the paths of the files that it wrote. @throws Error that says what to do, before it writes anything. */
export async function writeManifests(
  addresses: Addresses,
  { folder, distribution, force }: Request,
): Promise<string[]> {
  for (const [name, url] of Object.entries({
    APP_URL: addresses.appUrl,
    API_URL: webhookUrl(addresses),
  })) {
    if (url.startsWith('https://')) continue
    throw new Error(
      `HubSpot and Slack accept only https addresses, but ${name} is ${new URL(url).origin}. Set ${name} to the address at which the internet reaches it, such as https://bell.example.com.`,
    )
  }
  await refuseLinks(folder, Object.keys(manifests(addresses, distributions[0])))
  const path = join(folder, appFile)
  const earlier = v.safeParse(earlierApp, existsSync(path) ? await readFile(path, 'utf8') : '')
  const chosen =
    distribution ?? (earlier.success ? earlier.output.config.distribution : distributions[0])
  const files = Object.entries(manifests(addresses, chosen)).map(([path, content]) => ({
    path: join(folder, path),
    text: `${JSON.stringify(content, null, 2)}\n`,
  }))
  const different: typeof files = []
  for (const file of files) {
    const existing = existsSync(file.path) ? await readFile(file.path, 'utf8') : undefined
    if (existing !== file.text) different.push(file)
  }
  const overwritten = different.filter(({ path }) => existsSync(path))
  if (overwritten.length > 0 && !force) {
    const list = overwritten.map(({ path }) => `- ${path}`).join('\n')
    throw new Error(
      `These files exist and have another content, so nothing was written:\n${list}\nRepeat the command with --force to overwrite them, or name another folder.`,
    )
  }
  for (const { path, text } of different) {
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, text)
  }
  return different.map(({ path }) => path)
}

/**
 * Somebody else may be able to write to the folder. A symbolic link there would let us write anywhere.
 * @param names the paths of files below the folder.
 * @throws Error if one of them, or a folder on the way to it, is a symbolic link.
 */
async function refuseLinks(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    let path = folder
    for (const part of name.split('/')) {
      path = join(path, part)
      const found = await lstat(path).catch(() => undefined)
      if (!found?.isSymbolicLink()) continue
      throw new Error(
        `${path} is a symbolic link, so nothing was written. Remove it, or name another folder.`,
      )
    }
  }
}
