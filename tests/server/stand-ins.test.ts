import { eq } from 'drizzle-orm'
import { Hono } from 'hono'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { type Backend, createBackend } from '../../server/backend.ts'
import { connections, deliveries } from '../../server/database/schema.ts'
import type { DealEvent } from '../../server/providers/provider.ts'
import type { ProviderId } from '../../server/providers/registry.ts'
import { standInHub } from '../../stand-ins/hubspot/account.ts'
import { type Browser, browser, openBrowser, shareHarness, signIn } from './harness.ts'

// The same server, first with stand-ins and then with the real providers. Their calls arrive at the
// harness, which lists them.
const harness = await shareHarness()
let real: Backend
/** The same browser, after the server was started again with the real providers. */
let later: Browser

function backendWith(standIn: boolean, unused?: ProviderId): Backend {
  const { providers, ...addresses } = harness.addresses
  const settingsOf = (id: ProviderId) => {
    const inUse = id !== unused
    return { ...providers[id], inUse, standIn: standIn && inUse }
  }
  return createBackend({
    database: harness.database,
    encryptionKeys: [Buffer.alloc(32, 7)],
    addresses: {
      ...addresses,
      providers: { ...providers, hubspot: settingsOf('hubspot'), slack: settingsOf('slack') },
    },
    dashboard: undefined,
    alone: true,
    log: () => {},
    now: () => harness.clock.now,
    times: { lookAgainMs: 0, firstRetryMs: 10, askAgainMs: 10, pollMs: 10 },
  })
}

beforeEach(async () => {
  await signIn(browser, 'deal-stage-changed')
  real = backendWith(false)
  later = openLater()
  later.cookie = browser.cookie
  harness.calls.length = 0
})

/** A browser of the later server. Consent pages are still the harness's, in place of the real ones. */
function openLater() {
  const app = new Hono()
    .all('/sandbox/*', (c) => harness.app.fetch(c.req.raw))
    .all('*', (c) => real.app.fetch(c.req.raw))
  return openBrowser({ app })
}

const stored = () => harness.database.select().from(deliveries)
/** From now on, what all users have granted counts as granted by the real providers. */
const makeReal = () => harness.database.update(connections).set({ standIn: false })

const event: DealEvent = {
  key: 'event',
  accountId: String(standInHub.hubId),
  dealId: '1',
  property: 'stage',
  value: 'closedwon',
  occurredAt: new Date(),
}

describe('what a stand-in granted', () => {
  test('gets no events of the real provider', async () => {
    await real.inbox.store('hubspot', [event])
    expect(await stored()).toEqual([])
    // The same event does arrive with the stand-ins.
    await backendWith(true).inbox.store('hubspot', [event])
    expect(await stored()).toHaveLength(1)
  })

  test('is not used for what is pending: the real provider never sees its token', async () => {
    await backendWith(true).inbox.store('hubspot', [{ ...event, key: 'pending' }])
    // So old that the relay would first refresh it.
    await harness.database
      .update(connections)
      .set({ accessExpiresAt: new Date() })
      .where(eq(connections.provider, 'hubspot'))
    await real.relay.start()
    await vi.waitFor(async () => {
      expect(await stored()).toMatchObject([{ state: 'dead', reason: 'disconnected' }])
    })
    await real.relay.stop()
    expect(harness.calls).toEqual([])
  })

  test('is not connected with the real provider, and is disconnected without a call to it', async () => {
    for (const id of ['slack', 'hubspot'] as const) {
      expect(await later.connected(id)).toEqual({ connected: false })
      expect((await later.disconnect(id)).status).toBe(204)
    }
    expect(harness.calls).toEqual([])
    expect(await harness.database.select().from(connections)).toEqual([])
  })

  test('does not keep a real grant of the same workspace from being revoked', async () => {
    await openBrowser(harness).connect('slack')
    // The real Slack grants for the same workspace.
    await makeReal().where(eq(connections.userId, await browser.userId()))
    await later.disconnect('slack')
    expect(harness.calls).toContain('POST /sandbox/slack/api/auth.revoke')
  })
})

test('health names the page of each stand-in; with the real providers, only the contact form’s', async () => {
  const health = async (of: Browser) => (await of.call('/health')).json()
  const form = { 'contact-form': '/sandbox/contact-form' }
  const pages = { hubspot: '/sandbox/hubspot/deals', slack: '/sandbox/slack' }
  expect(await health(browser)).toMatchObject({ status: 'ok', standIns: { ...form, ...pages } })
  expect((await health(later)).standIns).toEqual(form)
})

test('a real Slack is not shared with the others whom the stand-in HubSpot signed in', async () => {
  const other = openLater()
  const attacker = openBrowser(harness)
  await attacker.connect('hubspot')
  other.cookie = attacker.cookie
  await later.connect('slack')
  expect(await later.connected('slack')).toMatchObject({ connected: true })
  expect(await other.connected('slack')).toEqual({ connected: false })
})

test('nothing answers for a provider that is not in use, and what it granted does not count', async () => {
  await makeReal()
  for (const id of ['hubspot', 'slack'] as const) {
    const { app, inbox } = backendWith(false, id)
    for (const path of [`/api/${id}/status`, `/api/${id}/auth`]) {
      expect((await app.request(path)).status, path).toBe(404)
    }
    expect((await app.request(`/webhooks/${id}`, { method: 'POST' })).status).toBe(404)
    await inbox.store('hubspot', [{ ...event, key: `without ${id}` }])
  }
  expect(await stored()).toEqual([])
  await backendWith(false).inbox.store('hubspot', [{ ...event, key: 'later' }])
  expect(await stored()).toHaveLength(1)
})

test('what the real provider granted is not sent to a stand-in', async () => {
  await makeReal()
  expect(await browser.connected('slack')).toEqual({ connected: false })
  expect(await later.connected('slack')).toMatchObject({ connected: true })
  await browser.disconnect('slack')
  expect(harness.calls).toEqual([])
})
