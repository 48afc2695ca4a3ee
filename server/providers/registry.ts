interface OAuthEntry {
  name: string
  role: 'crm' | 'chat'
  authorizeUrl: string
  /** The base address of the provider's API, without a trailing slash. */
  apiUrl: string
  /** The stand-in's paths of consent page, API and first page, below /sandbox/{id}. */
  standIn: { authorizePath: string; apiPath: string; pagePath: string }
}

/** A chat without a consent page: the user makes a webhook in the channel, and pastes its address into our page. */
interface AddressEntry {
  name: string
  role: 'chat'
  /** The origins of such addresses: 'https://host' or 'https://*.domain'. None: the operator must name them. */
  origins: readonly string[]
}

/**
 * Every service that this backend can connect, by its id: `providerIdOf` of the name, because the dashboard calls paths
 * with this id. The code derives types, database columns, settings, routes and addresses of stand-ins from this list.
 */
export const registry = {
  hubspot: {
    name: 'HubSpot',
    role: 'crm',
    authorizeUrl: 'https://app.hubspot.com/oauth/authorize',
    apiUrl: 'https://api.hubapi.com',
    standIn: { authorizePath: '/oauth/authorize', apiPath: '', pagePath: '/deals' },
  },
  pipedrive: {
    name: 'Pipedrive',
    role: 'crm',
    authorizeUrl: 'https://oauth.pipedrive.com/oauth/authorize',
    // Only for tokens. The address of a company's API comes with its tokens.
    apiUrl: 'https://oauth.pipedrive.com',
    standIn: { authorizePath: '/oauth/authorize', apiPath: '', pagePath: '/deals' },
  },
  slack: {
    name: 'Slack',
    role: 'chat',
    authorizeUrl: 'https://slack.com/oauth/v2/authorize',
    apiUrl: 'https://slack.com/api',
    standIn: { authorizePath: '/oauth/v2/authorize', apiPath: '/api', pagePath: '' },
  },
  'microsoft-teams': {
    name: 'Microsoft Teams',
    role: 'chat',
    origins: ['https://*.environment.api.powerplatform.com'],
  },
  'google-chat': {
    name: 'Google Chat',
    role: 'chat',
    origins: ['https://chat.googleapis.com'],
  },
  // Each company has its own server.
  mattermost: { name: 'Mattermost', role: 'chat', origins: [] },
  discord: {
    name: 'Discord',
    role: 'chat',
    origins: [
      'https://discord.com',
      'https://discordapp.com',
      'https://ptb.discord.com',
      'https://canary.discord.com',
    ],
  },
} as const satisfies Record<string, OAuthEntry | AddressEntry>

type Registry = typeof registry
export type ProviderId = keyof Registry
type IdOf<Entry> = {
  [Id in ProviderId]: Registry[Id] extends Entry ? Id : never
}[ProviderId]
export type CrmId = IdOf<{ role: 'crm' }>
export type ChatId = IdOf<{ role: 'chat' }>
export type AddressId = IdOf<AddressEntry>
export type OAuthId = Exclude<ProviderId, AddressId>

// The type of Object.keys says neither the names of the keys nor that there is at least one.
export const providerIds = Object.keys(registry) as [ProviderId, ...ProviderId[]]
export const crmIds = providerIds.filter(isCrmId) as [CrmId, ...CrmId[]]
export const chatIds = providerIds.filter(isChatId) as [ChatId, ...ChatId[]]
export const addressIds = providerIds.filter(isAddressId)
export const oauthIds = providerIds.filter((id) => !isAddressId(id)) as OAuthId[]

/** The deal properties that rules can use. Each CRM has its own names for them. */
export const dealProperties = ['stage', 'amount', 'owner', 'closeDate'] as const
export type DealProperty = (typeof dealProperties)[number]

export function isCrmId(id: ProviderId): id is CrmId {
  return registry[id].role === 'crm'
}

export function isChatId(id: ProviderId): id is ChatId {
  return registry[id].role === 'chat'
}

export function isAddressId(id: ProviderId): id is AddressId {
  return 'origins' in registry[id]
}

export const named = (ids: readonly ProviderId[]) => ids.map((id) => registry[id].name)

/** Makes something for each of `ids`. */
export function eachOf<Id extends ProviderId, T>(
  ids: readonly Id[],
  of: (id: Id) => T,
): Record<Id, T> {
  // The type of Object.fromEntries does not keep the names of the keys.
  return Object.fromEntries(ids.map((id) => [id, of(id)])) as Record<Id, T>
}

/** Those of `ids` that this server uses. There is at least one of each role. */
export function usedOf<Id extends ProviderId>(
  providers: Readonly<Record<ProviderId, { inUse: boolean }>>,
  ids: readonly Id[],
): readonly [Id, ...Id[]] {
  return ids.filter((id) => providers[id].inUse) as [Id, ...Id[]]
}

/** The path of the first page of each provider that a stand-in plays, by the provider's id. */
export function standInPages(
  providers: Readonly<Record<ProviderId, { standIn: boolean }>>,
): Partial<Record<ProviderId, string>> {
  return Object.fromEntries(
    providerIds
      .filter((id) => providers[id].standIn)
      .map((id) => [id, `/sandbox/${id}${isAddressId(id) ? '' : registry[id].standIn.pagePath}`]),
  )
}

/** The name of a provider's setting in the environment: SLACK_CLIENT_ID, MICROSOFT_TEAMS_WEBHOOK_ORIGINS. */
export function settingOf(id: ProviderId, name: string): string {
  return `${id.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}_${name}`
}

/** The setting that says that this server uses the provider, whatever the dashboard shows. */
export const mainSettingOf = (id: ProviderId) =>
  settingOf(id, isAddressId(id) ? 'WEBHOOK_ORIGINS' : 'CLIENT_ID')

/** The page of this server on which a user pastes the address of a webhook. */
export const addressPath = (id: AddressId) => `/api/${id}/address`
