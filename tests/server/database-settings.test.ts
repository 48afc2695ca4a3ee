import { sql } from 'drizzle-orm'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { exportData } from '../../server/cli/copy.ts'
import { openPostgres, rowsOf } from '../../server/database/open.ts'
import { checkDatabase } from '../../server/doctor/checks.ts'
import { newPostgresDatabase, openTestDatabase } from '../database.ts'
import { startBackend } from '../relay/backend.ts'
import { dealIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'

/** Runs SQL as whoever owns the database. */
async function alter(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  for (const each of statements) await client.query(each)
  await client.end()
}

const nameOf = (url: string) => new URL(url).pathname.slice(1)

// PGlite belongs to the server alone.
describe.runIf(process.env.TEST_ALL === '1')('in a PostgreSQL that others have set up', () => {
  const settings = {
    DateStyle: 'German',
    IntervalStyle: 'sql_standard',
    TimeZone: 'Asia/Kathmandu',
    bytea_output: 'escape',
    extra_float_digits: '-15',
    search_path: 'other, public',
    default_transaction_isolation: 'serializable',
    default_transaction_read_only: 'on',
    statement_timeout: '1000',
    lock_timeout: '1000',
    idle_in_transaction_session_timeout: '1000',
    idle_session_timeout: '5000',
    transform_null_equals: 'on',
    array_nulls: 'off',
    synchronous_commit: 'off',
  }

  test('each message is sent, and each time is right, whatever the settings of the database are', async () => {
    const url = await newPostgresDatabase()
    await alter(
      url,
      'create schema other',
      'create table other.users (name text)',
      ...Object.entries(settings).map(
        ([name, value]) =>
          `alter database ${nameOf(url)} set ${name} = ${name === 'search_path' ? value : `'${value}'`}`,
      ),
    )
    const outside = await openOutside()
    const opened = await openPostgres(url, () => undefined)
    const backend = await startBackend(opened, outside)
    onTestFinished(async () => {
      await backend.stop()
      await opened.close()
      await outside.close()
    })
    const userId = await backend.connect({ portal: 1, channel: 'C1' })
    const at = Date.UTC(2026, 1, 3, 4, 5, 6, 789)
    await backend.tell([stageChange(1, { portal: 1, at })])
    await backend.settled()
    expect(outside.posts.map(dealIn)).toEqual([1])
    const { items } = await backend.read(userId, 'notifications/activity')
    expect(items).toMatchObject([{ state: 'sent', at: new Date(at).toISOString() }])
    expect(
      await rowsOf(opened.database, sql`select current_setting('synchronous_commit') as durable`),
    ).toEqual([{ durable: 'on' }])
    expect(await exportData(opened.database, async () => {})).toBeGreaterThan(5)
  })

  test('an encoding that cannot store all names is refused in words', async () => {
    const url = await newPostgresDatabase()
    const name = `${nameOf(url)}_latin`
    await alter(url, `create database ${name} encoding 'LATIN1' locale 'C' template template0`)
    const latin = url.replace(nameOf(url), name)
    const refusal = /has the encoding LATIN1, .* createdb --encoding=UTF8 --template=template0/
    await expect(openPostgres(latin, () => undefined)).rejects.toThrow(refusal)
    expect(await checkDatabase(latin)).toEqual({
      kind: 'wrong',
      text: expect.stringMatching(refusal),
    })
    expect(await checkDatabase(url)).toMatchObject({ kind: 'right' })
  })
})

test('a name that the database cannot store is left out, and its message and the next one are sent', async () => {
  const outside = await openOutside()
  const opened = await openTestDatabase('PGlite')
  const backend = await startBackend(opened, outside)
  onTestFinished(async () => {
    await backend.stop()
    await opened.close()
    await outside.close()
  })
  await opened.database.execute(sql`
    create function refuse() returns trigger language plpgsql as $$ begin
      if new.deal_name like 'Zażółć%' then raise 'no equivalent' using errcode = '22P05'; end if;
      return new;
    end $$`)
  await opened.database.execute(
    sql`create trigger refuse before update on deliveries for each row execute function refuse()`,
  )
  const userId = await backend.connect({ portal: 1, channel: 'C1' })
  const skips = await backend.connect({
    portal: 1,
    channel: 'C2',
    ruleIds: ['deal-stage-changed-orphan'],
  })
  for (const deal of ['1', '2']) outside.deals.set(deal, { name: `Zażółć ${deal}`, linked: true })
  await backend.tell([stageChange(1, { portal: 1 }), stageChange(2, { portal: 1 })])
  await backend.settled()
  expect(outside.posts.map(({ text }) => text)).toEqual([
    expect.stringContaining('Zażółć 1'),
    expect.stringContaining('Zażółć 2'),
  ])
  const stored = [...(await backend.shown(userId)), ...(await backend.shown(skips))]
  expect(stored.map(({ dealName }) => dealName)).toEqual([null, null, null, null])
  const ignored = [
    ['ignored', 'no_rule'],
    ['ignored', 'no_rule'],
  ]
  expect(await backend.outcomes(skips)).toEqual(ignored)
})
