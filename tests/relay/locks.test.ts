import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OpenDatabase, openPostgres, rowsOf } from '../../server/database/open.ts'
import { channels, dealEvents, users } from '../../server/database/schema.ts'
import { createWithAccess } from '../../server/people/access-token.ts'
import { openSecrets } from '../../server/people/connections.ts'
import { routeOf } from '../../server/people/routes.ts'
import { createVault } from '../../server/people/vault.ts'
import { nextDelivery } from '../../server/relay/pick/next.ts'
import { createInbox } from '../../server/relay/receive/inbox.ts'
import { leaseDue } from '../../server/relay/schedule/channels.ts'
import { claim } from '../../server/relay/send/claim.ts'
import { moveToChannel, recordSent } from '../../server/relay/send/record.ts'
import { newPostgresDatabase } from '../database.ts'
import { type Account, type Backend, startBackend } from './backend.ts'
import { type Outside, openOutside } from './outside.ts'
import { openTwoSessions, type Task } from './two-sessions.ts'

const pace = { channelMs: 1_000, perSecond: 5, burst: 20 }

// What only locks prevent. The simulation cannot find it: its database serves one transaction at a time.

const [processA, processB] = [randomUUID(), randomUUID()] as const
const key = randomBytes(32)
const quiet = { working: false, key }
const account: Account = { portal: 1, team: 'T1', channel: 'C1' }
const change = { accountId: '1', dealId: '7', property: 'stage', value: 'next' } as const

let open: OpenDatabase
let outside: Outside
let backend: Backend
let sessions: Awaited<ReturnType<typeof openTwoSessions>>

beforeAll(async () => {
  const url = await newPostgresDatabase()
  open = await openPostgres(url, () => undefined, { poolSize: 1 })
  outside = await openOutside()
  backend = await startBackend(open, outside, quiet)
  sessions = await openTwoSessions(url, open.database)
})
afterAll(async () => {
  await sessions.close()
  await backend.stop()
  await open.close()
  await outside.close()
})

async function inAllOrders(begin: Parameters<typeof sessions.inAllOrders>[0]): Promise<void> {
  const orders = await sessions.inAllOrders(async () => {
    for (const table of [users, channels, dealEvents]) await open.database.delete(table)
    return await begin()
  })
  expect(orders).toBeGreaterThan(4)
}

/** A user with one message that is about to be sent. Process A holds the lease of the channel. */
async function withMessage() {
  const { database } = open
  const user = await backend.connect(account)
  await createInbox(database, () => {}).store('hubspot', [
    { ...change, key: 'one', occurredAt: new Date() },
  ])
  await database.execute(
    sql`update channels set leased_by = ${processA}, leased_until = now() + interval '10 seconds'`,
  )
  const next = await nextDelivery(database, 'T1/C1')
  if (next.kind !== 'delivery') throw new Error(next.kind)
  const { delivery } = next
  const { crm, chat } = delivery
  if (crm === null || chat === null) throw new Error('Nothing is connected.')
  const events: string[] = []
  const send: Task = async ({ database, step }) => {
    const claimed = await claim(database, processA, [delivery], [crm, chat], pace)
    if (claimed.kind !== 'claimed') return
    await step()
    events.push('posted')
    await recordSent(database, [{ ...delivery, claimedUntil: claimed.claimedUntil }], pace)
  }
  return { user, delivery, events, send }
}

const stored = async () =>
  await rowsOf<{ channel: string; state: string }>(
    open.database,
    sql`select channel, state from deliveries`,
  )

test('nothing is posted after a disconnect has answered', async () => {
  await inAllOrders(async () => {
    const { user, events, send } = await withMessage()
    const disconnect: Task = async ({ database }) => {
      const { disconnect } = await startBackend({ ...open, database }, outside, quiet)
      await disconnect(user, 'slack')
      events.push('answered')
    }
    return {
      tasks: [send, disconnect],
      check: async () => {
        expect(events).toSatisfy(() => events.length === 1 || events[0] === 'posted')
        expect((await stored())[0]?.state).toBe(events.includes('posted') ? 'sent' : 'pending')
      },
    }
  })
})

test('what another process moves to another channel is not sent in the former one', async () => {
  await inAllOrders(async () => {
    const { delivery, events, send } = await withMessage()
    // Process A has stood still.
    await open.database.execute(sql`update channels set leased_until = now() - interval '1 second'`)
    const move: Task = async ({ database }) => {
      await leaseDue(database, processB, { all: 1, failing: 1, last: 1 }, [])
      await moveToChannel(database, processB, delivery, 'T1/C2')
    }
    return {
      tasks: [send, move],
      check: async () => {
        const isSent = events.includes('posted')
        const one = isSent ? ['T1/C1', 'sent'] : ['T1/C2', 'pending']
        expect((await stored()).map(({ channel, state }) => [channel, state])).toEqual([one])
      },
    }
  })
})

test('what a webhook and a search tell at once is stored once', async () => {
  await inAllOrders(async () => {
    await backend.connect(account)
    const at = Date.now() + 60_000
    const event = (key: string, occurredAt: number) => [
      { ...change, key, occurredAt: new Date(occurredAt) },
    ]
    return {
      tasks: [
        ({ database }) => createInbox(database, () => {}).store('hubspot', event('told', at)),
        ({ database }) =>
          createInbox(database, () => {}).storeFound('hubspot', event('found', at + 9), 0),
      ],
      check: async () => expect(await stored()).toHaveLength(1),
    }
  })
})

test('two changes of a deal in one second that are told at once keep their order', async () => {
  await inAllOrders(async () => {
    await backend.connect(account)
    const occurredAt = new Date(Date.now() + 60_000)
    const tell =
      (former: string, value: string): Task =>
      ({ database }) =>
        createInbox(database, () => {}).store('hubspot', [
          { ...change, key: value, former, value, occurredAt },
        ])
    return {
      tasks: [tell('second', 'third'), tell('first', 'second')],
      check: async () => {
        const values = await rowsOf(
          open.database,
          sql`select value from deliveries join deal_events on deal_events.id = event_id
              order by deliveries.occurred_at, deliveries.id`,
        )
        expect(values).toEqual([{ value: 'second' }, { value: 'third' }])
      },
    }
  })
})

test.each(['refresh', 'connect', 'disconnect'] as const)(
  'a refreshed token is neither lost nor stored over a newer one: %s',
  async (other) => {
    await inAllOrders(async () => {
      const user = await backend.connect({ ...account, accessEndsInMs: 1_000 })
      const { crm } = await routeOf(open.database, user)
      if (crm === undefined) throw new Error('Nothing is connected.')
      const vault = createVault([key])
      const used: string[] = []
      let refreshes = 0
      const read: Task = async ({ database, step }) => {
        const refresh = async () => {
          await step()
          const secrets = { accessToken: `refreshed ${++refreshes}`, refreshToken: 'next' }
          return { secrets, accessExpiresAt: new Date(Date.now() + 1e7) }
        }
        const hubspot = { ...backend.providers.hubspot, refresh }
        const providers = { ...backend.providers, hubspot }
        const withAccess = createWithAccess({ database, vault, providers })
        await withAccess(crm, 'fresh', async ({ accessToken }) => used.push(accessToken)).catch(
          (error) => expect(error).toMatchObject({ reason: 'disconnected' }),
        )
      }
      const others: Record<typeof other, Task> = {
        refresh: read,
        connect: async ({ database }) => {
          const { connectAgain } = await startBackend({ ...open, database }, outside, quiet)
          await connectAgain(user, account)
        },
        disconnect: async ({ database }) => {
          const { disconnect } = await startBackend({ ...open, database }, outside, quiet)
          await disconnect(user, 'hubspot')
        },
      }
      return {
        tasks: [read, others[other]],
        check: async () => {
          const { crm: after } = await routeOf(open.database, user)
          const token = after && openSecrets(vault, after).accessToken
          if (other === 'disconnect') expect(token).toBeUndefined()
          if (other === 'connect') expect(token).toBe('hubspot-access-secret-1')
          if (other === 'refresh') expect([token, ...used]).toEqual(Array(3).fill('refreshed 1'))
        },
      }
    })
  },
)
