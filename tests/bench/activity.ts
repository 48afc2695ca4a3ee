import { sql } from 'drizzle-orm'
import type { Database } from '../../server/database/open.ts'
import { channels } from '../../server/database/schema.ts'
import type { Outside } from '../relay/outside.ts'
import { metricsToken, type ServerProcess, startServer } from '../relay/process.ts'
import { openTarget, seedSessions, seedUsers, type Target } from './seed.ts'

const stored = 1_000_000
/** One user has 50,000 of the deliveries, more than one a minute. The others share the rest. */
const smallUsers = 900
const days = 30
const tries = 100
/** The first calls of a process compile its code. */
const warmUp = 20
const states = ['sent', 'waiting', 'failed', 'skipped'] as const
/** What a user searches and filters by. The first finds nothing, the second everything, the third a few. */
const searches = [
  'q=nothing',
  'q=RENEWAL',
  'q=contract 99',
  'q=nothing&state=failed',
  'rule=deal-closed',
  'rule=rule-of-tomorrow',
  `day=${new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)}&zone=Europe/Berlin`,
]

interface Measured {
  measured: string
  times: number[]
  /** Between these calls, as many of `/health`: how much the machine itself delays an answer. */
  healthTimes: number[]
}

interface Person {
  name: string
  id: string
}

/** Measures the calls of the activity page at the server's address, with a million stored deliveries. */
export async function measureActivity(outside: Outside, database: Target): Promise<Measured[]> {
  const open = await openTarget(database)
  const people = await seedActivity(open.database)
  const measurements: Array<{ name: string; path: string; cookie: string }> = []
  for (const { name, id } of people) {
    const paths = ['summary?days=14&zone=Europe/Berlin']
    for (const state of [undefined, ...states]) {
      const page = `activity?limit=25${state === undefined ? '' : `&state=${state}`}`
      paths.push(page, `${page}&before=${middle()}`)
    }
    for (const search of searches) paths.push(`activity?limit=25&${search}&counts=true`)
    paths.push(`activity?limit=25&counts=true`, `activity?limit=25&q=nothing&before=${middle()}`)
    for (const path of paths) {
      // Each session may make 300 calls a minute.
      const [cookie = ''] = await seedSessions(open.database, [id])
      measurements.push({ name, path: `/api/notifications/${path}`, cookie })
    }
  }
  measurements.push({ name: 'no', path: '/metrics', cookie: '' })
  await open.close()

  const server = await startServer({ outside, database })
  const measured: Measured[] = []
  try {
    for (const { name, path, cookie } of measurements) {
      const call = () => timed(server, cookie, path)
      for (let n = 0; n < warmUp; n++) await call()
      const times: number[] = []
      const healthTimes: number[] = []
      for (let n = 0; n < tries; n++) {
        times.push(await call())
        healthTimes.push(await timed(server, cookie, '/health'))
      }
      measured.push({
        measured: `${name} user: ${path.replace('/api/notifications/', '').replace(/(before=).*/, '$1middle')}`,
        times,
        healthTimes,
      })
    }
  } finally {
    await server.kill()
  }
  return measured
}

/** The middle of the stored time, as the `next` of a page. */
const middle = () => `${(Date.now() - (days / 2) * 86_400_000) * 1000}.1`

async function timed(server: ServerProcess, cookie: string, path: string): Promise<number> {
  const begun = performance.now()
  const answer = await fetch(server.url + path, {
    headers: {
      Cookie: cookie,
      'Sec-Fetch-Site': 'same-origin',
      Authorization: `Bearer ${metricsToken}`,
    },
  })
  await answer.arrayBuffer()
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status}`)
  return performance.now() - begun
}

/**
 * Stores a million deliveries of 30 days as the relay leaves them: 10 % failed, 1 % pending, 20 % skipped.
 * The last day comes after the vacuum, as at the worst time of a day.
 */
async function seedActivity(database: Database): Promise<[Person, Person]> {
  const brokenSince = new Date(Date.now() - 86_400_000)
  const broken = { channelName: '#sales', brokenReason: 'is_archived', brokenSince }
  const ids = await seedUsers(database, smallUsers + 1, broken)
  await database
    .insert(channels)
    .values(ids.map((_, n) => ({ id: `T${n + 1}/C${n + 1}`, name: '#sales' })))

  const store = async (first: number, last: number) => {
    await database.execute(
      sql`with made as (
            insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at, received_at)
            select n::text, 'hubspot',
                   case when n % 20 = 0 then 1 else 2 + n % ${smallUsers}::int end::text,
                   n::text, 'stage', 'next', at, at
            from generate_series(${first}::int, ${last}::int) as n
            cross join lateral (select now() - make_interval(secs =>
              (${stored}::int - n) * ${(days * 86_400) / stored}::float8)) as time(at)
            returning id, deal_id::int as n, account_id, occurred_at as at
          )
          insert into deliveries (event_id, user_id, channel, state, occurred_at, attempts, reason,
            finished_at, rule_id, deal_name, from_label, to_label)
          select id, (${sql.param(ids)}::uuid[])[account_id::int], 'T' || account_id || '/C' || account_id, state, at, 1,
                 case state when 'dead' then 'is_archived' when 'ignored' then 'no_rule' end,
                 case when state <> 'pending' then at + interval '2 seconds' end,
                 case when state <> 'ignored' then
                   (array['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan'])[1 + n / 20 % 3]
                 end,
                 'Renewal of contract ' || n, 'Appointment scheduled', 'Contract sent'
          from made cross join lateral (select case when n / 20 % 100 < 10 then 'dead'
            when n / 20 % 100 < 11 then 'pending' when n / 20 % 100 < 31 then 'ignored' else 'sent' end
          ) as one(state)`,
    )
  }
  const lastDay = stored - stored / days
  const batch = 20_000
  for (let first = 1; first <= lastDay; first += batch) {
    await store(first, Math.min(first + batch - 1, Math.floor(lastDay)))
  }
  // Otherwise the database would do it while it answers.
  await database.execute(sql`vacuum analyze`)
  for (let first = Math.floor(lastDay) + 1; first <= stored; first += batch) {
    await store(first, Math.min(first + batch - 1, stored))
  }
  // Otherwise the database still writes down the seed while it answers.
  await database.execute(sql`checkpoint`)
  const [large = '', small = ''] = ids
  return [
    { name: 'large', id: large },
    { name: 'small', id: small },
  ]
}
