import { eq } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { createPreview } from '../../server/activity/preview.ts'
import type { OpenDatabase } from '../../server/database/open.ts'
import { connections, crmAccounts } from '../../server/database/schema.ts'
import { routeOf } from '../../server/people/routes.ts'
import { createInbox } from '../../server/relay/receive/inbox.ts'
import { type CatchUp, createCatchUp } from '../../server/relay/search/schedule.ts'
import { type DatabaseKind, openTestDatabase } from '../database.ts'
import { type Account, type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { type Outside, type OutsideDeal, openOutside } from './outside.ts'

// What the tests of a file share: one database, one outside world and one backend.
export let open: OpenDatabase
export let outside: Outside
export let backend: Backend
// Each test has an account, a workspace and a channel of its own.
export let portal = 1000
export let team = ''
export let channel = ''

/** Starts a backend for the tests of a file or of a `describe`. */
export function shareBackend(
  kind: DatabaseKind = 'PGlite',
  options: Parameters<typeof startBackend>[2] = {},
): void {
  beforeAll(async () => {
    open = await openTestDatabase(kind)
    outside = await openOutside()
    backend = await startBackend(open, outside, options)
  })
  beforeEach(nextAccount)
  afterEach(() => {
    outside.answerPost = () => undefined
    outside.answerRead = () => undefined
    outside.answerRefresh = () => undefined
    outside.deals.clear()
    outside.missing.clear()
    outside.merged.clear()
    outside.reads.length = 0
    backend.lines.length = 0
  })
  afterAll(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })
}

/** Makes the function that asks for the preview of a user's CRM. */
export function createUserPreview(...options: Parameters<typeof createPreview>) {
  const previewOf = createPreview(...options)
  return async (userId: string) => {
    const { crm } = await routeOf(backend.database, userId)
    if (crm === undefined) throw new Error('The user has no CRM.')
    return previewOf(crm)
  }
}

/** From now on, the test is about another account, workspace and channel. */
export function nextAccount(): void {
  portal += 1
  team = `T${portal}`
  channel = `C${portal}`
}

/** Another user of this test's account. Without a channel of its own, the user shares this test's channel. */
export const connect = (more: Partial<Account> = {}) =>
  backend.connect({ portal, team, channel, ...more })

/** HubSpot tells of these deals of this test's account in one webhook, in the order of their changes. */
export const tell = (deals: readonly number[], stage?: string) =>
  backend.tell(changes(deals, stage))

export function changes(deals: readonly number[], stage = 'next') {
  const at = Date.now() - 10_000
  return deals.map((deal, n) => stageChange(deal, { portal, stage, at: at + n }))
}

/** So many numbers, from `first` on. */
export const range = (first: number, count: number) =>
  Array.from({ length: count }, (_, n) => first + n)

export const second = 1_000
export const minute = 60 * second
export const hour = 60 * minute
export const day = 24 * hour
/** Rounded, so that a time is the same in a webhook, in HubSpot's answers and in the database. */
export const ago = (ms: number) => Math.floor(Date.now() / second) * second - ms
/** For `vi.waitFor`. */
export const soon = { timeout: 20_000, interval: 20 }

/** In HubSpot, the deal has had these stages, the oldest first. Returns the webhooks about them. */
export function history(
  deal: number,
  stages: Array<[stage: string, atMs: number]>,
  more: Omit<OutsideDeal, 'history'> = {},
) {
  const values = stages.map(([value, at]) => ({ value, timestamp: new Date(at).toISOString() }))
  outside.deals.set(String(deal), { history: values.reverse(), ...more })
  return stages.map(([stage, at]) => stageChange(deal, { portal, stage, at }))
}

/** As `history`, but the deal was created in the first stage long ago. */
export const moved = (...[deal, stages, more]: Parameters<typeof history>) =>
  history(deal, [['start', ago(30 * day)], ...stages], more).slice(1)

export const posts = () => outside.posts.filter((post) => post.channel === channel)
export const calls = () => outside.calls.filter((call) => call.channel === channel)

/** Slack's answers to the messages for this test's channel. */
export function answerPosts(answer: Outside['answerPost']): void {
  const own = channel
  outside.answerPost = (call) => (call.channel === own ? answer(call) : undefined)
}

export const refusePosts = (error: string) =>
  answerPosts(() => ({ status: 200, body: JSON.stringify({ ok: false, error }) }))

/** Slack answers only at `accept()`. `calling` resolves when the message has arrived. */
export function holdPost(): { calling: Promise<void>; accept: () => void } {
  const { promise: calling, resolve: started } = Promise.withResolvers<void>()
  const { promise: accepted, resolve } = Promise.withResolvers<undefined>()
  answerPosts(() => {
    started()
    return accepted
  })
  return { calling, accept: () => resolve(undefined) }
}

const searchTimes = {
  pollMs: 20,
  pauseMs: 0,
  everyMs: 60 * 60_000,
  retryMs: 5,
  afterErrorMs: 20,
}

export const openInbox = () => createInbox(backend.database, backend.relay.wake)

/** Starts the search for missed changes, as a process does after its start. */
export function startSearch(times: Partial<typeof searchTimes> = {}): CatchUp {
  const search = createCatchUp({ ...backend, inbox: openInbox() }, { ...searchTimes, ...times })
  search.start()
  return search
}

/** As if the user had connected HubSpot at that time. */
export async function connectedSince(userId: string, atMs: number): Promise<void> {
  await backend.database
    .update(connections)
    .set({ connectedSince: new Date(atMs) })
    .where(eq(connections.userId, userId))
}

/** The account is searched now. The last search was complete until that time, and has ended some seconds ago. */
export async function searchedUntil(atMs: number, account = portal): Promise<void> {
  // Not now: a start that follows at once might count it as later.
  const searchedAt = new Date(ago(10 * second))
  const times = { searchedUntil: new Date(atMs), searchAt: new Date(0), searchedAt }
  await backend.database
    .insert(crmAccounts)
    .values({ crm: 'hubspot', accountId: String(account), ...times })
    .onConflictDoUpdate({ target: [crmAccounts.crm, crmAccounts.accountId], set: times })
}
