import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { migrate } from 'drizzle-orm/pglite/migrator'
import type { Database } from '../../server/database/open.ts'
import * as schema from '../../server/database/schema.ts'
import type { Owner, Time } from './time.ts'

// One database in memory for all processes of a simulation. Its SQL functions say the virtual time.

type Client = Pick<PGlite, 'query'>

/** Functions of the product's SQL that say the time or are random: PostgreSQL finds these ones first. */
const clock = `
  create schema sim;
  create sequence sim.ids;
  create function sim.now() returns timestamptz language sql stable
    as 'select to_timestamp(current_setting(''sim.begun'')::float8)';
  create function sim.clock_timestamp() returns timestamptz language sql volatile
    as 'select to_timestamp(current_setting(''sim.at'')::float8)';
  create function sim.gen_random_uuid() returns uuid language sql volatile
    as 'select md5(nextval(''sim.ids'')::text)::uuid';
  set sim.at = '0'; set sim.begun = '0';
  set search_path = public, sim, pg_catalog;`

/** The error of a connection that broke. */
function broken(): Error {
  return Object.assign(new Error('The connection to the database broke.'), { code: 'ECONNRESET' })
}

export class SimulatedDatabase {
  readonly #client: PGlite
  #time: Time | undefined
  #clockAt = Number.NaN
  #holder: Owner | undefined
  #isHeld = false
  #waiting: Array<{ owner: Owner | undefined; begin: () => void }> = []
  /** Nobody reaches the database before this time. */
  awayUntil = 0
  /** The share of statements whose answer is lost, though they are committed. */
  lostAnswers = 0
  /** Is called for each statement of a process. */
  onStatement: (owner: Owner) => void = () => {}

  private constructor(client: PGlite) {
    this.#client = client
  }

  static async open(): Promise<SimulatedDatabase> {
    const client = await PGlite.create()
    await client.exec(clock)
    await migrate(drizzle(client), {
      migrationsFolder: new URL('../../server/database/migrations', import.meta.url).pathname,
    })
    return new SimulatedDatabase(client)
  }

  close = () => this.#client.close()

  /** Deletes everything, and takes its time from now on from `time`. */
  async reset(time: Time): Promise<void> {
    const { rows } = await this.#client.query<{ name: string }>(
      `select string_agg(format('public.%I', tablename), ', ') as name from pg_tables where schemaname = 'public'`,
    )
    await this.#client.exec(`truncate ${rows[0]?.name} restart identity cascade;
      alter sequence sim.ids restart`)
    this.#time = time
    this.#clockAt = Number.NaN
    this.#holder = undefined
    this.#isHeld = false
    this.#waiting = []
    this.awayUntil = 0
    this.lostAnswers = 0
  }

  get time(): Time {
    if (this.#time === undefined) throw new Error('The database has no time yet.')
    return this.#time
  }

  /** Runs a statement of the simulation itself. It takes no time. */
  async ask<Row>(query: string, parameters: unknown[] = []): Promise<Row[]> {
    return await this.time.work(async () => {
      await this.#setClock(true)
      return (await this.#client.query<Row>(query, parameters)).rows
    })
  }

  /** The database as a process sees it: each statement takes a moment, and may fail. */
  of(owner: Owner): Database {
    const { time } = this
    // Some statements take long: the machine is busy, or the network is.
    const travel = () =>
      time.wait(time.chance(0.01) ? time.between(100, 6_000) : time.between(0.1, 4), owner)
    const reach = async () => {
      await travel()
      if (time.now < this.awayUntil) throw broken()
      this.onStatement(owner)
    }
    const client = {
      query: async (...parts: Parameters<Client['query']>) => {
        await reach()
        await this.#enter(owner)
        let result: Awaited<ReturnType<Client['query']>>
        try {
          result = await this.#run(parts, true)
        } finally {
          this.#leave()
        }
        if (time.chance(this.lostAnswers)) throw broken()
        await travel()
        return result
      },
      transaction: async <Result>(work: (tx: Client) => Promise<Result>) => {
        await reach()
        await this.#enter(owner)
        let result: Result
        try {
          await this.#run(['begin'], true)
          result = await work({
            query: async (...parts: Parameters<Client['query']>) => {
              await time.wait(time.between(0.1, 2), owner)
              this.onStatement(owner)
              return await this.#run(parts, false)
            },
          } as Client)
          await this.#run(['commit'], false)
        } catch (error) {
          await this.#rollBack()
          throw error
        } finally {
          this.#leave()
        }
        if (time.chance(this.lostAnswers)) throw broken()
        await travel()
        return result
      },
    }
    return drizzle(client as unknown as PGlite, { schema })
  }

  /** Ends what a process that has died has begun. */
  async endOf(owner: Owner): Promise<void> {
    if (!this.#isHeld || this.#holder !== owner) return
    await this.#rollBack()
    this.#leave()
  }

  statements = 0
  async #run(parts: Parameters<Client['query']>, begins: boolean) {
    this.statements++
    return await this.time.work(async () => {
      await this.#setClock(begins)
      return await this.#client.query(...parts)
    })
  }

  async #setClock(begins: boolean): Promise<void> {
    const { now } = this.time
    if (now === this.#clockAt && !begins) return
    const names = begins ? ['sim.at', 'sim.begun'] : ['sim.at']
    const sets = names.map((name) => `set_config('${name}', '${now / 1000}', false)`)
    await this.#client.exec(`select ${sets.join()}`)
    this.#clockAt = now
  }

  async #rollBack(): Promise<void> {
    this.#clockAt = Number.NaN
    await this.time.work(() => this.#client.query('rollback'))
  }

  /** Statements wait while another process is in a transaction: PGlite has one connection. */
  #enter(owner: Owner): Promise<void> {
    return new Promise((resolve) => {
      const begin = () => {
        this.#isHeld = true
        this.#holder = owner
        this.time.as(owner, resolve)
      }
      if (this.#isHeld) this.#waiting.push({ owner, begin })
      else begin()
    })
  }

  #leave(): void {
    this.#isHeld = false
    this.#holder = undefined
    for (;;) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      if (next.owner?.alive === false) continue
      next.begin()
      return
    }
  }
}
