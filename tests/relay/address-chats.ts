import { expect } from 'vitest'
import type { AddressChat } from '../../server/providers/by-address.ts'
import { createDiscord, discord } from '../../server/providers/discord/discord.ts'
import { createGoogleChat, googleChat } from '../../server/providers/google-chat/google-chat.ts'
import { createMattermost, mattermost } from '../../server/providers/mattermost/mattermost.ts'
import { createTeams, teams } from '../../server/providers/microsoft-teams/microsoft-teams.ts'
import type { PostOutcome } from '../../server/providers/provider.ts'
import type { AddressProblem } from '../../server/providers/read-address.ts'
import { registry } from '../../server/providers/registry.ts'
import type { StandInChat } from '../../stand-ins/by-address.ts'
import { standInDiscord } from '../../stand-ins/discord/discord.ts'
import { standInGoogleChat } from '../../stand-ins/google-chat/google-chat.ts'
import { standInMattermost } from '../../stand-ins/mattermost/mattermost.ts'
import { standInTeams } from '../../stand-ins/microsoft-teams/microsoft-teams.ts'
import { readCard, readDiscord, readGoogleCard, readMarkdown, type Shown } from './foreign-rules.ts'
import { type Answer, page } from './open-provider.ts'

/** What a test must know of a chat to which users give the address of a webhook. */
export interface AddressCase {
  chat: AddressChat
  create: typeof createTeams
  standIn: StandInChat
  origins: readonly string[]
  /** Addresses of one channel. The first one is as the chat writes it. */
  right: [string, ...string[]]
  /** Each is another channel of the same account. */
  elsewhere?: string[]
  wrong: (readonly [fault: AddressProblem['fault'], address: string, part?: string])[]
  /** What an address is stored with since 0.1.0. Nobody may lose this channel. */
  stored: [address: string, channel: string]
  read(json: object): Shown
  /** How many letters a message may have at least. */
  longest: number
  outcomes: [answer: Answer, outcome: PostOutcome][]
  /** An error with a code that is on no list, without its status. */
  unknown: { answer: Answer; reason: string }
  /** What shares a limit, and what is a channel, of the right addresses. */
  accounts: [accountId: unknown, channelId: unknown]
  /** The answers to a question without a post: what the chat tells if the webhook is fine, or what the error says. */
  looks?: [answer: Answer, tells: object | undefined, error?: object][]
}

export const broken = (reason: string): PostOutcome => ({
  kind: 'refused',
  reason,
  connectionBroken: true,
})
const unfit = (reason: string): PostOutcome => ({
  kind: 'refused',
  reason,
  connectionBroken: false,
})
const unclear = (reason: string): PostOutcome => ({ kind: 'unclear', reason })
const failed = (reason: string): PostOutcome => ({ kind: 'failed', reason })
const waits = (ms: number): PostOutcome => ({ kind: 'wait', ms })
const posted: PostOutcome = { kind: 'posted' }

const id = '0123456789abcdef0123456789abcdef'
const direct = '/powerautomate/automations/direct'
const workflow = `${direct}/cu/22/workflows/${id}/triggers/manual/paths/invoke`
const query = '?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=a_B-c'
const powerPlatform = 'environment.api.powerplatform.com'
const teamsError = (status: number, code: string) => ({ status, body: { error: { code } } })

const teamsHost = `https://default0a.1b.${powerPlatform}`

const space = 'https://chat.googleapis.com/v1/spaces/AAQA-b_1/messages'
const googleError = (code: number, status: string, details?: object[]) => ({
  status: code,
  body: { error: { code, status, message: 'No.', details } },
})

const hook = 'https://chat.example.com/hooks/abcdefghijklmnopqrstuvwx12'
const hookError = (status: number, id: string) => ({ status, body: { id, status_code: status } })

const discordHook = '/api/webhooks/1234567890123456789/a-B_c'.padEnd(108, 'x')
const discordError = (status: number, code: number) => ({ status, body: { message: 'No.', code } })
const discordWaits = (seconds: number) => ({ message: 'No.', retry_after: seconds, global: false })

export const cases: AddressCase[] = [
  {
    chat: teams,
    create: createTeams,
    standIn: standInTeams,
    origins: registry['microsoft-teams'].origins,
    right: [
      `https://default0a.1b.${powerPlatform}:443${workflow}${query}`,
      ...['06', '10', '14', '22', '24', 'eu-1'].map(
        (unit) => `${teamsHost}${workflow.replace('22', unit)}${query}`,
      ),
      ...[
        `/workflows/${id}/triggers/manual/paths/invoke`,
        `${direct}/workflows/${id}/triggers/manual/paths/invoke`,
        `${direct}/workflows/${id}/triggers/manual/paths/invoke/`,
        `${direct}/WORKFLOWS/${id.toUpperCase()}/triggers/manual/paths/invoke`,
        `${direct}/workflows/${id}/triggers/When_a_webhook_arrives/paths/invoke`,
        `${direct}/workflows/${id}/versions/7/triggers/manual/paths/invoke`,
        `${direct}/workflows/${id}/triggers/manual/v2/paths/invoke/deals`,
        `${direct}/environments/Default-0a/su/3/cu/22/workflows/${id}/triggers/manual/paths/invoke`,
        `/powerautomate/v2/flows/workflows/${id}/triggers/manual/paths/invoke`,
        `${direct}/workflows/${id}/triggers/Une_requ%C3%AAte_%E2%80%93_%e5%8f%97/paths/invoke`,
        `${direct}/workflows/${id}/triggers/manual!$&()*;v=1/paths/invoke`,
      ].map((path) => teamsHost + path + query),
      ...[
        '',
        '?',
        '?sig=a_B-c',
        '?api-version=2016-06-01&sp=/triggers/manual/run&sv=1.0&sig=a',
        '?x=1',
      ].map((other) => teamsHost + workflow + other),
      `${teamsHost}${workflow}${query}&se=2027&tenant=a,b`,
      `https://a.${powerPlatform}${workflow}${query}`,
    ],
    wrong: [
      ['origin', `https://${powerPlatform}${workflow}${query}`],
      ['origin', `https://.${powerPlatform}${workflow}${query}`],
      ['origin', `https://*.${powerPlatform}${workflow}${query}`],
      ['origin', `https://a..${powerPlatform}${workflow}${query}`],
      ['origin', `https://a_b.${powerPlatform}${workflow}${query}`],
      ['origin', `https://a.evil-${powerPlatform}${workflow}${query}`],
      ['origin', `https://evil.example/.${powerPlatform}${workflow}${query}`],
      ['origin', `https://evil.example?.${powerPlatform}${workflow}${query}`],
      ['spelling', `https://a.${powerPlatform}${workflow}//${query}`],
      ['path', `${teamsHost}/foo/bar${query}`, '/foo/bar'],
      ['path', `${teamsHost}${direct}/flows/${id}/run${query}`, `${direct}/flows/…/run`],
      ['path', `${teamsHost}/workflows/${id}/run${query}`, '/run'],
    ],
    stored: [
      `${teamsHost}:443${direct}/workflows/${id}/triggers/manual/paths/invoke?sig=a`,
      'microsoft-teams:3eb1bd439947eb762998e566ccc2e099/3eb1bd439947eb762998e566ccc2e099',
    ],
    read: readCard,
    longest: 15_000,
    unknown: { answer: { body: { error: { code: 'Unheard' } } }, reason: 'Unheard' },
    accounts: [
      expect.stringMatching(/^microsoft-teams:[\da-f]{32}$/),
      expect.stringMatching(/^[\da-f]{32}$/),
    ],
    outcomes: [
      [{ status: 202 }, posted],
      [{ body: 'accepted' }, posted],
      [teamsError(200, 'Unheard'), failed('Unheard')],
      [page, failed('nonsense')],
      [teamsError(404, 'WorkflowNotFound'), broken('WorkflowNotFound')],
      [teamsError(400, 'WorkflowTriggerIsNotEnabled'), broken('WorkflowTriggerIsNotEnabled')],
      [teamsError(401, 'DirectApiAuthorizationRequired'), broken('DirectApiAuthorizationRequired')],
      [teamsError(400, 'TriggerInputSchemaMismatch'), unfit('TriggerInputSchemaMismatch')],
      [{ status: 413 }, unfit('http_413')],
      [{ ...page, status: 502 }, failed('http_502')],
      [{ ...page, status: 404 }, failed('http_404')],
      [{ status: 404 }, broken('http_404')],
      [{ status: 429 }, waits(30_000)],
    ],
  },
  {
    chat: googleChat,
    create: createGoogleChat,
    standIn: standInGoogleChat,
    origins: registry['google-chat'].origins,
    right: [
      `${space}?key=AIza-x_1&token=a-B_c%3D`,
      ...[
        'key=AIza-x_1&token=a-B_c%3D',
        'token=a-B_c%3D&key=AIza-x_1',
        'requestId=1&key=AIza-x_1&token=a-B_c%3D',
      ].flatMap((parameters) =>
        [
          '',
          '&threadKey=deals',
          '&messageReplyOption=REPLY_MESSAGE_OR_FAIL',
          '&messageReplyOption=MESSAGE_REPLY_OPTION_UNSPECIFIED&threadKey=deals',
          '&requestId=client-1&messageId=client-1',
          '&request_id=1&requestId=2&requestId=3',
          '&alt=json&prettyPrint=false',
        ].map((more) => `${space}?${parameters}${more}`),
      ),
      `${space}/?key=AIza-x_1&token=a-B_c%3D`,
      ...['/chat/v1/', '/v2/', '/v1beta/', '/'].map((start) =>
        space.replace('/v1/', start).concat('?key=AIza-x_1&token=a-B_c%3D'),
      ),
      `${space}?KEY=AIza-x_1&Token=a-B_c%3D&thread_key=`,
    ],
    elsewhere: [
      `${space}?key=a&token=b&threadKey=c&messageReplyOption=REPLY_MESSAGE_OR_FAIL`,
      `${space}?messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD&key=a&threadKey=d&token=b`,
      `${space}?key=a&token=b&thread_key=e&message_reply_option=REPLY_MESSAGE_OR_FAIL`,
      `${space}?key=a&token=b&ThreadKey=f&messageReplyoption=REPLY_MESSAGE_OR_FAIL`,
      // Each webhook has threads of its own.
      `${space}?key=a&token=c&threadKey=c&messageReplyOption=REPLY_MESSAGE_OR_FAIL`,
    ],
    wrong: [
      ['spelling', `${space}?key=a&token=b?threadKey=c`, '?'],
      ['spelling', `${space}?key=a&token=b&x=[y]`, '['],
      ['parameter', `${space}?key=a&key=b`],
      ['parameter', `${space}?key=a`],
      ['parameter', `${space}?key=a&token=`],
      ['path', space.replace('spaces', 'rooms').concat('?key=a&token=b'), '/v1/rooms/…/messages'],
      ['path', space.replace('messages', 'members').concat('?key=a&token=b'), '/v1/members'],
      ['path', `${space}/1?key=a&token=b`, '/v1/1'],
    ],
    stored: [`${space}?key=AIza-x_1&token=a-B_c%3D`, 'google-chat:AAQA-b_1/AAQA-b_1'],
    read: readGoogleCard,
    longest: 15_000,
    unknown: { answer: { body: { error: { status: 'UNHEARD' } } }, reason: 'UNHEARD' },
    accounts: ['google-chat:AAQA-b_1', 'AAQA-b_1'],
    outcomes: [
      [{ body: { name: 'spaces/A/messages/B.C' } }, posted],
      [googleError(403, 'PERMISSION_DENIED'), broken('PERMISSION_DENIED')],
      [googleError(404, 'NOT_FOUND'), broken('NOT_FOUND')],
      [
        googleError(400, 'INVALID_ARGUMENT', [{ reason: 'API_KEY_INVALID' }]),
        broken('API_KEY_INVALID'),
      ],
      [googleError(400, 'INVALID_ARGUMENT', [{ field: 'x' }]), unfit('INVALID_ARGUMENT')],
      [googleError(503, 'UNAVAILABLE'), failed('UNAVAILABLE')],
      [{ body: 'OK' }, posted],
      [{ ...googleError(200, 'INTERNAL'), status: 200 }, failed('INTERNAL')],
      [page, failed('nonsense')],
      [googleError(429, 'RESOURCE_EXHAUSTED'), waits(60_000)],
    ],
  },
  {
    chat: mattermost,
    create: createMattermost,
    standIn: standInMattermost,
    origins: ['https://chat.example.com'],
    right: [
      hook,
      ...[hook, hook.replace('com', 'com:443')].flatMap((start) =>
        ['', '/'].flatMap((end) =>
          ['', '?x=1', '?a=%2F&b', '?token=a:b', '?x=1&y=/'].map((more) => start + end + more),
        ),
      ),
    ],
    elsewhere: ['mattermost', 'a/b', 'a/b.c/d-e/~f', 'hooks'].map((path) =>
      hook.replace('/hooks', `/${path}/hooks`),
    ),
    wrong: [
      ['path', hook.toUpperCase()],
      ['path', hook.slice(0, -1)],
      ['path', `${hook}3`],
      ['path', hook.replace('hooks', 'api'), '/api/…'],
      ['path', hook.replace('/hooks/', '/plugins/hooks/x/'), '/plugins/…'],
      ['spelling', hook.replace('/hooks', '/a//hooks')],
      ['spelling', hook.replace('/hooks', '/..;/hooks'), '/..;'],
      ['spelling', hook.replace('/hooks', '/.;x/hooks')],
    ],
    stored: [
      hook.replace('/hooks', '/mattermost/hooks'),
      'mattermost:chat.example.com/a03e27ecbaa109fc9f6f2cfd4696c5bb',
    ],
    read: readMarkdown,
    longest: 15_000,
    unknown: { answer: { body: { id: 'a.new.app_error' } }, reason: 'a_new' },
    accounts: ['mattermost:chat.example.com', expect.stringMatching(/^[\da-f]{32}$/)],
    looks: [
      [hookError(404, 'web.incoming_webhook.channel.app_error'), {}],
      [
        hookError(400, 'web.incoming_webhook.invalid.app_error'),
        undefined,
        { kind: 'refused', reason: 'web_incoming_webhook_invalid' },
      ],
      [
        hookError(500, 'web.incoming_webhook.channel.app_error'),
        undefined,
        { kind: 'unreachable' },
      ],
      [{ ...page, status: 404 }, undefined, { kind: 'unreachable', reason: 'http_404' }],
      [{ status: 429 }, undefined, { kind: 'unreachable', retryAfterMs: 10_000 }],
    ],
    outcomes: [
      [{ body: 'ok' }, posted],
      [
        hookError(400, 'web.incoming_webhook.invalid.app_error'),
        broken('web_incoming_webhook_invalid'),
      ],
      [
        hookError(501, 'web.incoming_webhook.disabled.app_error'),
        broken('web_incoming_webhook_disabled'),
      ],
      [hookError(404, 'app.channel.get.existing.app_error'), broken('app_channel_get_existing')],
      [
        hookError(400, 'model.incoming_hook.parse_data.app_error'),
        unfit('model_incoming_hook_parse_data'),
      ],
      [hookError(500, 'app.channel.get.find.app_error'), failed('app_channel_get_find')],
      [{ body: { status: 'OK' } }, posted],
      [hookError(200, 'api.context.new.app_error'), failed('api_context_new')],
      [page, failed('nonsense')],
      [{ status: 429, headers: { 'X-RateLimit-Reset': '7' } }, waits(7_000)],
      [{ status: 429, headers: { 'X-RateLimit-Reset': '1800000000' } }, waits(10_000)],
    ],
  },
  {
    chat: discord,
    create: createDiscord,
    standIn: standInDiscord,
    origins: registry.discord.origins,
    right: [
      `https://discord.com${discordHook}`,
      ...registry.discord.origins.flatMap((origin) =>
        ['', 'v6/', 'v9/', 'v10/', 'v11/'].map(
          (version) => origin + discordHook.replace('/api/', `/api/${version}`),
        ),
      ),
      ...[
        '/',
        '/slack',
        '/github',
        '/slack/',
        '?wait=true',
        '/slack?wait=false',
        '?thread_id=',
      ].map((end) => `https://discord.com${discordHook}${end}`),
    ],
    elsewhere: ['?thread_id=1', '/slack?wait=true&thread_id=2'].map(
      (end) => `https://discord.com${discordHook}${end}`,
    ),
    wrong: [
      ['origin', `https://x.discord.com${discordHook}`],
      ['path', `https://discord.com${discordHook}/messages/1`, '/messages/1'],
      ['path', `https://discord.com${discordHook.replace('/api/', '/api/vx/')}`, '/vx'],
      ['path', `https://discord.com${discordHook.replace('/123', '/@me')}`],
      ['path', `https://discord.com${discordHook.replace('webhooks', 'channels')}`],
      ['path', 'https://discord.com/channels/1/2', '/channels/1/2'],
      ['path', 'https://discord.com/'],
    ],
    stored: [
      `https://canary.discord.com${discordHook.replace('/api/', '/api/v10/')}`,
      'discord:1234567890123456789/1234567890123456789',
    ],
    read: readDiscord,
    longest: 4_096,
    unknown: { answer: { body: { message: 'No.', code: 999_999 } }, reason: 'code_999999' },
    accounts: ['discord:1234567890123456789', '1234567890123456789'],
    looks: [
      [
        { body: { id: '1', name: 'sales', channel_id: '2', guild_id: '3' } },
        { channelName: 'sales' },
      ],
      [
        { body: { id: '1', name: null, channel_id: '2' } },
        { accountId: 'discord:2', channelId: '2' },
      ],
      [discordError(404, 10015), undefined, { kind: 'refused', reason: 'code_10015' }],
      [discordError(401, 50027), undefined, { kind: 'refused', reason: 'code_50027' }],
      [discordError(403, 40333), undefined, { kind: 'unreachable', reason: 'code_40333' }],
      [page, undefined, { kind: 'unreachable', reason: 'nonsense' }],
      [{ status: 429 }, undefined, { kind: 'unreachable', retryAfterMs: 60_000 }],
    ],
    outcomes: [
      [{ body: { id: '1', channel_id: '2' } }, posted],
      [discordError(404, 10015), broken('code_10015')],
      [discordError(404, 10003), broken('code_10003')],
      [discordError(404, 0), broken('discord_404')],
      [discordError(401, 50027), broken('code_50027')],
      [discordError(400, 220001), broken('code_220001')],
      [discordError(400, 240000), unfit('code_240000')],
      [discordError(404, 10008), unclear('code_10008')],
      [discordError(400, 50035), unfit('code_50035')],
      [discordError(413, 40005), unfit('code_40005')],
      [{ ...page, status: 413 }, unfit('http_413')],
      [discordError(401, 0), unclear('http_401')],
      [discordError(403, 40333), unclear('code_40333')],
      [{ status: 503 }, failed('http_503')],
      [{ status: 204 }, posted],
      [{ body: { status: 'OK' } }, posted],
      [discordError(200, 50035), failed('code_50035')],
      [page, failed('nonsense')],
      [{ status: 429, body: discordWaits(1.5) }, waits(1_500)],
      [{ status: 429, headers: { 'Retry-After': '7' }, body: discordWaits(6.4) }, waits(7_000)],
      [{ ...page, status: 429 }, waits(60_000)],
    ],
  },
]
