import { PGlite, parse, protocol } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { migrateAlone } from '../../server/database/migrate.ts'
import type { Database } from '../../server/database/open.ts'
import type { Owner, Time } from './time.ts'

// One database in memory for all processes of a simulation. PGlite takes its time from `Date`, so its SQL
// says the virtual time. Each statement of a process travels to the database and back, and may fail.

/** The order of rows may depend on ids, so they are the same in each run. PostgreSQL finds this function first. */
const sameIds = `
  create schema sim;
  create sequence sim.ids;
  create function sim.gen_random_uuid() returns uuid language sql volatile
    as 'select md5(nextval(''sim.ids'')::text)::uuid';
  set search_path = public, sim, pg_catalog;
  set plan_cache_mode = force_generic_plan;`

type QueryOptions = Parameters<PGlite['query']>[2]
type Result = Awaited<ReturnType<PGlite['query']>>
/** What Drizzle calls of a client. */
interface Client {
  query(sql: string, parameters?: unknown[], options?: QueryOptions): Promise<Result>
}

/** The error of a connection that broke. */
function broken(): Error {
  return Object.assign(new Error('The connection to the database broke.'), { code: 'ECONNRESET' })
}

/** A statement of a process, right before it runs or right after it. */
export interface Step {
  owner: Owner
  sql: string
  parameters: readonly unknown[]
  when: 'before' | 'after'
  /** How many rows it has returned. */
  rows?: number
}

export class SimulatedDatabase {
  readonly #client: PGlite
  readonly #prepared = new Map<string, { name: string; types: number[] }>()
  #parsers: PGlite['parsers'] | undefined
  #time: Time | undefined
  #holder: Owner | undefined
  #isHeld = false
  #waiting: Array<{ owner: Owner; begin: () => void }> = []
  /** Nobody reaches the database before this time. */
  awayUntil = 0
  /** The share of statements whose answer is lost, although they are committed. */
  lostAnswers = 0
  /** The share of statements that take long, because the machine is busy or the network is. */
  slowStatements = 0.01
  /** How many statements of processes have run. */
  statements = 0
  /** How long each row that a statement returns, or changes in `deliveries`, keeps the database busy. */
  rowMs = 0
  /** The most rows of one statement of a process. They are counted while `rowMs` is set. */
  mostRows = 0
  /** Is called for each statement of a process. 'lose' loses the statement or its answer. */
  onStep: (step: Step) => 'lose' | undefined = () => undefined

  /** One text, so that it is prepared once. */
  readonly #truncate: string

  private constructor(client: PGlite) {
    this.#client = client
    const tables = this.ask<{ name: string }>(
      `select format('public.%I', tablename) as name from pg_tables where schemaname = 'public'`,
    )
    this.#truncate = `truncate ${tables.map(({ name }) => name).join()} restart identity cascade`
  }

  static async open(): Promise<SimulatedDatabase> {
    const client = await PGlite.create()
    await client.exec(sameIds)
    await migrateAlone(client)
    return new SimulatedDatabase(client)
  }

  close = () => this.#client.close()

  /** Deletes everything, and waits from now on in `time`. */
  reset(time: Time): void {
    this.#time = time
    this.#holder = undefined
    this.#isHeld = false
    this.#waiting = []
    this.awayUntil = 0
    this.lostAnswers = 0
    this.slowStatements = 0.01
    this.statements = 0
    this.rowMs = 0
    this.mostRows = 0
    this.onStep = () => undefined
    // PGlite keeps all messages of execProtocolRawSync until then.
    void this.#client.execProtocol(protocol.serialize.sync(), { syncToFs: false })
    this.ask(this.#truncate)
    this.ask('alter sequence sim.ids restart')
  }

  get time(): Time {
    if (this.#time === undefined) throw new Error('The database has no time yet.')
    return this.#time
  }

  /** Runs a statement of the simulation itself. It takes no time. */
  ask<Row>(sql: string, parameters: unknown[] = []): Row[] {
    return this.#run(sql, parameters).rows as Row[]
  }

  /** The database for the set-up: nothing takes time or fails. */
  direct = (): Database => {
    const client: Client = { query: async (...statement) => this.#run(...statement) }
    return drizzle(client as unknown as PGlite)
  }

  /** Counts from now on how many deliveries each statement changes, however deep in it. */
  countChanges(): void {
    const [known] = this.ask(`select from pg_proc where proname = 'count_changes'`)
    if (known !== undefined) return
    this.ask(`create function sim.count_changes() returns trigger language plpgsql as $$ begin
      perform set_config('sim.changes', (
        coalesce(nullif(current_setting('sim.changes', true), ''), '0')::int + (select count(*) from changed)
      )::text, false);
      return null;
    end $$`)
    this.ask(`create function sim.forget_changes() returns text language sql
      as $$ select set_config('sim.changes', '', false) $$`)
    for (const [event, table] of [
      ['insert', 'new'],
      ['update', 'new'],
      ['delete', 'old'],
    ]) {
      this.ask(`create trigger count_${event} after ${event} on deliveries referencing ${table} table as changed
        for each statement execute function sim.count_changes()`)
    }
  }

  #changedRows(): number {
    const [row] = this.ask<{ changes: string }>(
      `select current_setting('sim.changes', true) as changes, sim.forget_changes()`,
    )
    return Number(row?.changes ?? 0)
  }

  /** The database as a process sees it: each statement takes a moment, and may fail. */
  of(owner: Owner): Database {
    const { time } = this
    const travel = () => {
      const { dice } = time
      return time.wait(
        dice.chance(this.slowStatements) ? dice.between(100, 6_000) : dice.between(0.1, 4),
        owner,
      )
    }
    const step = async (sql: string, parameters: readonly unknown[], result?: Result) => {
      const when = result === undefined ? 'before' : 'after'
      const answer = this.onStep({
        owner,
        sql,
        parameters,
        when,
        ...(result && { rows: result.rows.length }),
      })
      // A process that has died goes on nowhere.
      if (!owner.alive) await new Promise(() => {})
      return answer === 'lose'
    }
    const reach = async () => {
      await travel()
      if (time.now < this.awayUntil) throw broken()
      await this.#enter(owner)
    }
    const run: Client['query'] = async (sql, parameters = [], options) => {
      if (await step(sql, parameters)) throw broken()
      // It may have stood still meanwhile.
      if (owner.frozenUntil > time.now) await time.wait(0, owner)
      this.statements++
      const result = this.#run(sql, parameters, options)
      if (this.rowMs > 0) {
        const rows = result.rows.length + this.#changedRows()
        this.mostRows = Math.max(this.mostRows, rows)
        await time.wait(rows * this.rowMs, owner)
      }
      return result
    }
    const answered = async (isLost: boolean) => {
      if (isLost || time.dice.chance(this.lostAnswers)) throw broken()
      await travel()
    }
    const client = {
      query: async (...statement: Parameters<Client['query']>) => {
        await reach()
        const [sql, parameters = []] = statement
        let result: Result
        let isLost: boolean
        try {
          result = await run(...statement)
          isLost = await step(sql, parameters, result)
        } finally {
          this.#leave(owner)
        }
        await answered(isLost)
        return result
      },
      transaction: async <Value>(work: (tx: Client) => Promise<Value>) => {
        await reach()
        let isLost = false
        let value: Value
        try {
          this.#run('begin')
          value = await work({
            query: async (...statement) => {
              await time.wait(time.dice.between(0.1, 2), owner)
              const result = await run(...statement)
              const [sql, parameters = []] = statement
              if (await step(sql, parameters, result)) isLost = true
              return result
            },
          })
          this.#run('commit')
        } catch (error) {
          this.#run('rollback')
          throw error
        } finally {
          this.#leave(owner)
        }
        await answered(isLost)
        return value
      },
    }
    return drizzle(client as unknown as PGlite)
  }

  /** Ends what a process that has died has begun. */
  endOf(owner: Owner): void {
    if (this.#holder !== owner) return
    this.#run('rollback')
    this.#leave(owner)
  }

  /** Runs a statement at once. The same text is parsed and described once only. */
  #run(sql: string, parameters: readonly unknown[] = [], options?: QueryOptions): Result {
    const { serialize } = protocol
    let known = this.#prepared.get(sql)
    if (known === undefined) {
      const name = `s${this.#prepared.size}`
      const described = this.#send([
        serialize.parse({ name, text: sql }),
        serialize.describe({ type: 'S', name }),
      ])
      known = { name, types: parse.parseDescribeStatementResults(described) }
      this.#prepared.set(sql, known)
    }
    const { name, types } = known
    const { rowMode = 'object' } = options ?? {}
    const values = parameters.map((value, at) => {
      if (value === null || value === undefined) return null
      const toText = this.#client.serializers[types[at] ?? 0]
      return toText === undefined ? String(value) : toText(value)
    })
    const messages = this.#send([
      serialize.bind({ statement: name, values }),
      serialize.describe({ type: 'P' }),
      serialize.execute(),
    ])
    const [result] = parse.parseResults(messages, this.#parsersOf(options), { rowMode })
    if (result === undefined) throw new Error('The database gave no result.')
    return result as Result
  }

  /** Drizzle always names the same parsers. PGlite would merge them anew for each statement. */
  #parsersOf(options: QueryOptions): PGlite['parsers'] {
    if (options?.parsers === undefined) return this.#client.parsers
    this.#parsers ??= { ...this.#client.parsers, ...options.parsers }
    return this.#parsers
  }

  #send(parts: readonly Uint8Array[]): ReturnType<typeof messagesIn> {
    const answer = this.#client.execProtocolRawSync(
      Buffer.concat([...parts, protocol.serialize.sync()]),
    )
    return messagesIn(answer)
  }

  /** Statements wait while another one is in a transaction: PGlite has one connection. */
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

  #leave(owner: Owner): void {
    if (this.#holder !== owner) return
    this.#isHeld = false
    this.#holder = undefined
    for (;;) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      if (!next.owner.alive) continue
      next.begin()
      return
    }
  }
}

const parser = new protocol.Parser()

/** @throws the database's error, if there is one. */
function messagesIn(answer: Uint8Array) {
  const messages: Parameters<typeof parse.parseResults>[0] = []
  let error: unknown
  parser.parse(answer, (message) => {
    if (message.name === 'error') error = message
    else messages.push(message)
  })
  if (error !== undefined) throw error
  return messages
}
