// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of the server's files.
import { type RegisterHooksOptions, registerHooks } from 'node:module'
import type { ChatId, CrmId } from '../../server/providers/registry.ts'
import type { Scene } from './crowd.ts'
import type { SimulatedDatabase } from './database.ts'
import type { Theme } from './faults.ts'
import { planOf } from './plan.ts'

// Proves that the simulation finds faults: it undoes one fix at a time and plays seeds, or a scene of a crowd, until one
// fails.
// `npm run simulate -- --breaks` prints the table. Add a line for each fix whose fault the simulation should find.

/** Replaces a text that its file has exactly once. */
interface Break {
  name: string
  file: string
  from: string
  to: string
  /** Plays only the seeds of this theme. */
  theme?: Theme
  /** Plays with this CRM. By default, HubSpot. */
  crm?: CrmId
  /** Plays only the seeds with this chat. */
  chat?: ChatId
  /** Plays this scene of a crowd, and no seeds. */
  scene?: Scene
}

const relay = 'server/relay'

/** The numbers are those of the issue 'One person's data on a page, each message once'. */
export const breaks: readonly Break[] = [
  {
    name: '15 a refused read of stages reaches all users of the account',
    file: `${relay}/decide/stages.ts`,
    from: 'if (!isOfOther) throw error',
    to: 'throw error',
  },
  {
    name: '17 a process renews leases that it does not know',
    file: `${relay}/schedule/channels.ts`,
    from: 'leased_by = ${processId} and id = any(${sql.param([...held])}::text[])',
    to: 'leased_by = ${processId} and ${held.length} > 0 and leased_until is not null',
    theme: 'lost lease',
  },
  {
    name: '19 a transaction has no bound',
    file: `${relay}/receive/store.ts`,
    from: 'const maxRowsAtOnce = 2_000',
    to: 'const maxRowsAtOnce = 1e9',
    theme: 'bulk',
  },
  {
    name: '20 a search trusts our clock',
    file: `${relay}/search/search.ts`,
    from: 'beganMs = Math.min(beganMs, found.at.getTime())',
    to: 'beganMs = Math.min(beganMs, Date.now())',
  },
  {
    name: '21 connecting again swallows changes',
    file: 'server/people/connections.ts',
    from: 'then ${connections.connectedSince}',
    to: 'then excluded.connected_since',
  },
  {
    name: '22 a pause of Slack has no bound',
    file: 'server/providers/calls.ts',
    from: 'Math.min(seconds * 1000, longestWaitMs)',
    to: 'seconds * 1000',
    theme: 'pause',
  },
  {
    name: '23 the age of a claim is not checked',
    file: `${relay}/send/send.ts`,
    from: 'if (!mayPost()) {',
    to: 'if (Number.isNaN(0)) {',
    theme: 'stall',
  },
  {
    name: '23b who lost the lease changes what another one sends',
    file: `${relay}/send/record.ts`,
    from: 'and sending_until is not distinct from ${group[0].claimedUntil}::timestamptz',
    to: '',
    theme: 'stall',
  },
  {
    name: '24 errors of the database count as tries',
    file: `${relay}/send/end.ts`,
    from: 'if (isDatabaseFailure(error)) throw error',
    to: '',
  },
  {
    name: 'pace: half the time between two messages',
    file: `${relay}/schedule/pauses.ts`,
    from: 'next_at = ${fromNow(channelMs)}',
    to: 'next_at = ${fromNow(channelMs / 2)}',
  },
  {
    name: 'pace: a chat gets that of another one',
    file: 'server/providers/microsoft-teams/microsoft-teams.ts',
    from: 'pace: { channelMs: 2_000, perSecond: 0.5, burst: 1 }',
    to: 'pace: { channelMs: 1_000, perSecond: 5, burst: 20 }',
    chat: 'microsoft-teams',
  },
  {
    name: 'pace: each process counts alone',
    file: `${relay}/schedule/pauses.ts`,
    from: '((await countCall?.(`messages ${account}`, burst, burst * intervalMs)) ?? 0)',
    to: '0',
  },
  {
    name: 'webhook: a message is posted twice',
    file: 'server/providers/by-address.ts',
    from: "return outcomeOf(await ask(url, { method: 'post', json }))",
    to: "await ask(url, { method: 'post', json }); return outcomeOf(await ask(url, { method: 'post', json }))",
  },
  {
    name: 'webhook: a page counts as an acceptance',
    file: 'server/providers/by-address.ts',
    from: "return isOfProxy ? { kind: 'failed'",
    to: "return isOfProxy && Number.isNaN(0) ? { kind: 'failed'",
    chat: 'microsoft-teams',
  },
  {
    name: 'broken: a deleted webhook breaks nothing',
    file: 'server/providers/microsoft-teams/microsoft-teams.ts',
    from: "    WorkflowNotFound: 'the",
    to: "    Other: 'the",
    chat: 'microsoft-teams',
  },
  {
    name: 'order: deliveries are taken as they were stored',
    file: `${relay}/pick/next.ts`,
    from: '.orderBy(deliveries.occurredAt, deliveries.id)\n    .limit(1)',
    to: '.orderBy(deliveries.id)\n    .limit(1)',
  },
  {
    name: 'alone: all wait for a message that fails',
    file: `${relay}/pick/next.ts`,
    from: 'cardinality(passes) <= least(tries, ${mostPassed}::int)',
    to: 'cardinality(passes) = 0',
    // It cannot be asked whether it works.
    chat: 'google-chat',
  },
  {
    name: 'alone: what fails first keeps the others of its kind from being tried',
    file: `${relay}/pick/next.ts`,
    from: 'order by not_before nulls first, occurred_at, id limit 1',
    to: 'order by occurred_at, id limit 1',
  },
  {
    name: 'claim: it ignores the claims of others',
    file: `${relay}/pick/delivery.ts`,
    from: 'export const isClaimed = sql`(sending_until',
    to: 'export const isClaimed = sql`(false and sending_until',
    theme: 'leaving',
  },
  {
    name: 'claim: a connection may have ended',
    file: `${relay}/send/claim.ts`,
    from: 'select count(*) = 2 as yes from own',
    to: 'select count(*) >= 0 as yes from own',
  },
  {
    name: 'claim: another user of the channel has got it',
    file: `${relay}/send/claim.ts`,
    from: 'and (select state is null from same_event)',
    to: '',
  },
  {
    name: 'record: only one try',
    file: `${relay}/send/send.ts`,
    from: 'if (isStopping()) throw error\n        await delay(times.pollMs)',
    to: 'throw error',
  },
  {
    name: 'dedup: a repeated webhook is another change',
    file: 'server/providers/hubspot/events.ts',
    from: 'update(JSON.stringify(parts))',
    to: 'update(JSON.stringify(parts) + Math.random())',
  },
  {
    name: 'dedup: a webhook does not look at what a search found',
    file: `${relay}/receive/store.ts`,
    from: "foundBy === 'search' ? 'webhook' : 'search'",
    to: "'webhook'",
  },
  {
    name: 'dedup: webhook and search must name the same time',
    file: `${relay}/receive/store.ts`,
    from: 'export const sameChangeMs = 60_000',
    to: 'export const sameChangeMs = 0',
  },
  {
    name: 'broken: any refused refresh breaks a connection',
    file: 'server/providers/hubspot/http.ts',
    from: "return stage !== 'refresh' || refreshRefusals.has(reason ?? '')",
    to: 'return true',
  },
  {
    name: 'broken: one refusal is enough',
    file: 'server/people/refusals.ts',
    from: '(${isFinal} or ${brokenSince} is not null',
    to: '(true',
  },
  {
    name: 'broken: a refusal breaks nothing',
    file: 'server/people/refusals.ts',
    from: 'or ${askAgainAt} between',
    to: 'or null::timestamptz between',
  },
  {
    name: 'move: messages stay in the former channel',
    file: `${relay}/send/ready.ts`,
    from: 'if (chosenChannel !== channel) return',
    to: 'if (Number.isNaN(0)) return',
  },
  {
    name: 'disconnect: it does not wait for the message on its way',
    file: 'server/api/status-and-disconnect.ts',
    from: 'await sendingEnded(database, userId)',
    to: '',
    theme: 'leaving',
  },
  {
    name: 'pause: a workspace is not paused',
    file: `${relay}/schedule/pauses.ts`,
    from: '`}, ${fromNow(forMs)}',
    to: '`}, ${fromNow(0)}',
    theme: 'pause',
  },
  {
    name: 'pause: another channel does not know the pause of its workspace',
    file: 'server/database/clock.ts',
    from: "account.id = split_part(${channel}.id, '/', 1) || '/'",
    to: 'account.id = ${channel}.id',
    theme: 'pause',
  },
  {
    name: 'pause: an account is not paused',
    file: 'server/providers/hubspot/http.ts',
    from: 'if (error.retryAfterMs !== undefined) limiter.pause',
    to: 'if (Number.isNaN(0)) limiter.pause',
  },
  {
    name: 'limit: each process counts its own calls alone',
    file: 'server/backend.ts',
    from: 'countCall,\n    spend:',
    to: 'spend:',
  },
  {
    name: 'id: each try of a message has another one',
    file: `${relay}/send/send.ts`,
    from: 'return [channel, occurredAt,',
    to: 'return [channel, Math.random(),',
  },
  {
    name: 'id: a message is repeated for a day though the chat knows no ids',
    file: `${relay}/send/send.ts`,
    from: 'first.mayBePosted && !providers[chat.provider].knowsIds',
    to: 'false',
    chat: 'microsoft-teams',
  },
  {
    name: 'clock: what was stored while it was ahead counts',
    file: 'server/database/clock.ts',
    from: 'sql`${time} > ${now} + make_interval(secs => ${(mostMs + lockWaitMs) / 1000})`',
    to: 'sql`${time} > ${now} + make_interval(days => 99)`',
  },
  {
    name: 'identity: whoever connects another account stays the same user',
    file: 'server/people/identity.ts',
    from: 'const id = unnamed?.id ?? (await insertUser(tx))',
    to: 'const id = userId',
  },
  {
    name: 'hidden: what one token reads serves all users of the account',
    file: 'server/people/access-token.ts',
    from: "(readsAs === 'user' ? `${accountId}/${id}` : accountId)",
    to: 'accountId',
    crm: 'pipedrive',
  },
  {
    name: "hidden: 'said in channel' copies names",
    file: `${relay}/send/end.ts`,
    from: "const isShared = providers[group[0].crmId].readsAs === 'account'",
    to: 'const isShared = true',
    crm: 'pipedrive',
  },
  {
    name: 'hidden: the list shows the new stage of a deal that was not read',
    file: `${relay}/send/tell.ts`,
    from: "const mayBeHidden = providers[by.crm.provider].readsAs === 'user'",
    to: 'const mayBeHidden = false',
    crm: 'pipedrive',
  },
  {
    name: 'webhook: it is made without a look',
    file: 'server/people/subscription.ts',
    from: 'const found = await webhooks.find(fresh, connection)',
    to: 'const found = Number.isNaN(0) ? await webhooks.find(fresh, connection) : undefined',
    crm: 'pipedrive',
  },
  {
    name: 'webhook: one that no longer works counts',
    file: 'server/providers/pipedrive/subscription.ts',
    from: 'is_active && name === wanted.name && subscription_url === webhookUrl',
    to: 'true || [is_active, name, wanted]',
    crm: 'pipedrive',
  },
  {
    name: 'webhook: those of another server with the same client id are ours',
    file: 'server/providers/pipedrive/subscription.ts',
    from: '(String(id) === webhookId || subscription_url === webhookUrl) &&',
    to: "(String(id) === webhookId || subscription_url !== '') &&",
    crm: 'pipedrive',
  },
  {
    name: 'webhook: its id is not known',
    file: 'server/providers/pipedrive/subscription.ts',
    from: '(String(id) === webhookId || subscription_url === webhookUrl) &&',
    to: '(webhookId === undefined || subscription_url === webhookUrl) &&',
    crm: 'pipedrive',
  },
  {
    name: 'budget: the search reads every changelog',
    file: `${relay}/search/search.ts`,
    from: "if (told === undefined || property !== 'stage') return ids",
    to: 'if (Number.isNaN(0) === false) return ids',
    crm: 'pipedrive',
  },
  {
    name: 'budget: what is left of a short day is for all',
    file: 'server/providers/limiter.ts',
    from: "const keep = urgency === 'spare' ? keptForEvents : undefined",
    to: 'const keep = undefined',
    crm: 'pipedrive',
  },
  {
    name: 'again: a later change hides a missing one',
    file: `${relay}/receive/store.ts`,
    from: 'or coalesce(stored.former <> to_json(stored.before)::text, false) end',
    to: 'end',
    crm: 'pipedrive',
  },
  {
    name: 'order: two changes of one second come as they were told',
    file: `${relay}/receive/store.ts`,
    from: 'value, former, ${timeInOrder}, ${foundBy}',
    to: 'value, former, at, ${foundBy}',
    crm: 'pipedrive',
  },
  {
    name: 'search: a changelog that fails ends it',
    file: `${relay}/search/search.ts`,
    from: 'if (failed.push(error) === mostFailed) throw error',
    to: 'throw error',
    crm: 'pipedrive',
  },
  {
    name: 'search: not every hour',
    file: `${relay}/search/schedule.ts`,
    from: 'everyMs: 60 * 60_000',
    to: 'everyMs: 600 * 60_000',
  },
  {
    name: 'search: not after an absence',
    file: `${relay}/search/schedule.ts`,
    from: 'if (isAfterAbsence) {',
    to: 'if (Number.isNaN(0)) {',
  },
  {
    name: 'release: a lease is never given back',
    file: `${relay}/schedule/loop.ts`,
    from: 'await releaseLeases(database, processId, finished)',
    to: 'void releaseLeases',
  },
  {
    name: 'crowd: what waits is looked at every five seconds',
    file: `${relay}/send/work.ts`,
    from: "return { kind: 'rest', ms: next.ms, failing",
    to: "return { kind: 'rest', ms: Math.min(next.ms, 5_000), failing",
    scene: 'waiting',
  },
  {
    name: 'crowd: a page of a backlog has no bound',
    file: `${relay}/pick/following.ts`,
    from: 'const mostOfPage = 200',
    to: 'const mostOfPage = 1e6',
    scene: 'skipped',
  },
  {
    name: 'crowd: a walk over a backlog has no bound',
    file: `${relay}/send/tell.ts`,
    from: 'const mostPages = 5',
    to: 'const mostPages = 1e6',
    scene: 'skipped',
  },
  {
    name: 'crowd: a refused form is forgotten',
    file: `${relay}/send/send.ts`,
    from: 'countTry: true, form }',
    to: 'countTry: true }',
    scene: 'refused',
  },
  {
    name: 'crowd: what waits at a disconnect ends in one statement',
    file: `${relay}/send/group-sql.ts`,
    from: 'limit ${batchRows}',
    to: 'limit 1000000',
    scene: 'disconnect',
  },
  {
    name: 'crowd: what fails gets all places',
    file: `${relay}/schedule/loop.ts`,
    from: 'const maxFailing = 200',
    to: 'const maxFailing = 1e9',
    scene: 'away',
  },
  {
    name: 'crowd: one account gets all places',
    file: `${relay}/send/work.ts`,
    from: 'const mostOfAccount = 100',
    to: 'const mostOfAccount = 1e9',
    scene: 'oneAway',
  },
  {
    name: 'crowd: the webhooks of one account come before those of others',
    file: `${relay}/receive/inbox.ts`,
    from: 'queue = inTurns(queue)',
    to: '',
    scene: 'flood',
  },
]

const project = new URL('../../', import.meta.url).href
const applied = new Set<string>()

/** A module whose address ends with a break's number imports the others with it, too: the whole server anew. */
const hooks: RegisterHooksOptions = {
  resolve(specifier, context, nextResolve) {
    const resolved = nextResolve(specifier, context)
    const number = context.parentURL?.split('?break=')[1]
    const isOurs = resolved.url.startsWith(project) && !resolved.url.includes('/node_modules/')
    return number === undefined || !isOurs || resolved.url.includes('?')
      ? resolved
      : { ...resolved, url: `${resolved.url}?break=${number}` }
  },
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const [path, number] = url.split('?break=')
    const chosen = breaks[Number(number ?? Number.NaN)]
    if (chosen === undefined || path !== project + chosen.file) return loaded
    const source = String(loaded.source)
    const { name, from, to } = chosen
    if (source.split(from).length !== 2) throw new Error(`${chosen.file} must have once: ${from}`)
    applied.add(name)
    return { ...loaded, source: source.replace(from, () => to) }
  },
}

/** Plays up to `seeds` seeds with each break whose name begins with `only`, until one fails. */
export async function printTable(
  database: SimulatedDatabase,
  { seeds, only }: { seeds: number; only: string },
): Promise<void> {
  registerHooks(hooks)
  for (const [number, { name, theme, crm, chat, scene }] of breaks.entries()) {
    if (!name.startsWith(only)) continue
    const begun = process.cpuUsage()
    const found =
      scene === undefined
        ? await findBySeed(database, number, { theme, crm, chat }, seeds)
        : await findByCrowd(database, number, scene)
    if (!applied.has(name)) throw new Error(`Nothing loads the file of '${name}'.`)
    const { user, system } = process.cpuUsage(begun)
    console.log(`| ${name} | ${found} | ${Math.round((user + system) / 1e6)} s |`)
  }
}

async function findBySeed(
  database: SimulatedDatabase,
  number: number,
  only: { theme: Theme | undefined; crm: CrmId | undefined; chat: ChatId | undefined },
  seeds: number,
): Promise<string> {
  const { simulate }: typeof import('./simulate.ts') = await import(`./simulate.ts?break=${number}`)
  for (let seed = 1; seed <= seeds; seed++) {
    const { crm = 'hubspot' } = only
    const { theme, chat } = planOf(seed, crm)
    if (theme !== (only.theme ?? theme) || chat !== (only.chat ?? chat)) continue
    const [broken] = (await simulate(database, seed, { crm })).broken
    if (broken !== undefined) return `seed ${seed}: ${broken}`
  }
  return `not found in ${seeds} seeds`
}

async function findByCrowd(
  database: SimulatedDatabase,
  number: number,
  scene: Scene,
): Promise<string> {
  const { playCrowd }: typeof import('./crowd.ts') = await import(`./crowd.ts?break=${number}`)
  for (const isLarge of [false, true]) {
    const [broken] = (await playCrowd(database, scene, { isLarge })).broken
    if (broken !== undefined) return broken
  }
  return 'not found'
}
