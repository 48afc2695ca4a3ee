import { eq, inArray, sql } from 'drizzle-orm'
import { type Background, repeatInBackground } from '../background.ts'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import { errorFields, type Log } from '../log.ts'
import { ProviderError, type Providers } from '../providers/provider.ts'
import { isCrmId } from '../providers/registry.ts'
import { createWithAccess } from './access-token.ts'
import { type Connection, isOfConfigured, markBroken, openSecrets } from './connections.ts'
import type { Vault } from './vault.ts'

/** In hours. A check that failed for a time, or whose process died, is made again after an hour. */
const checkEvery = 24
const againAfter = 1

/** How often to look for connections whose check is due. */
const defaultPollMs = 60_000

export interface Checks {
  start(): void
  stop(): Promise<void>
}

/**
 * Creates the function that asks a provider whether it still accepts a connection, and marks the connection as broken
 * if not. It throws only if it cannot store that the connection is broken. It logs every other failure.
 */
export function createCheck({
  database,
  vault,
  providers,
  log,
}: {
  database: Database
  vault: Vault
  providers: Providers
  log: Log
}): (connection: Connection) => Promise<void> {
  const withAccess = createWithAccess({ database, vault, providers })

  /** @throws ProviderError if the provider refuses the connection or does not answer. */
  async function ask(connection: Connection): Promise<void> {
    const { provider } = connection
    if (isCrmId(provider)) {
      // As if the access token had expired: only a refresh proves that the app is still installed.
      const expired = { ...connection, provider, accessExpiresAt: new Date(0) }
      await withAccess(expired, 'spare', async () => {})
    } else {
      await providers[provider].check(openSecrets(vault, connection))
    }
  }

  return async function check(connection) {
    const { id, provider } = connection
    try {
      await ask(connection)
      await database
        .update(connections)
        .set({ checkedAt: sql`now()` })
        .where(eq(connections.id, id))
    } catch (error) {
      if (!(error instanceof ProviderError)) {
        log('check failed', { connection: id, provider, ...errorFields(error) })
        return
      }
      const { kind, reason } = error
      const isBroken =
        kind === 'refused' &&
        reason !== undefined &&
        Object.hasOwn(providers[provider].brokenReasons, reason)
      if (isBroken) await markBroken(database, connection, reason)
      log(isBroken ? 'connection broken' : 'check failed', {
        connection: id,
        provider,
        kind,
        reason,
      })
    }
  }
}

/**
 * Creates the daily checks of all connections. Nobody else notices that an app was uninstalled as long
 * as there is nothing to send. Each connection has its own time of day.
 */
export function createChecks(
  dependencies: { database: Database; vault: Vault; providers: Providers; log: Log },
  pollMs: number = defaultPollMs,
): Checks {
  const { database, providers, log } = dependencies
  const check = createCheck(dependencies)
  let running: Background | undefined

  async function checkNext(): Promise<number> {
    const connection = await takeNext()
    if (connection === undefined) return pollMs
    await check(connection)
    return 0
  }

  /** Takes the connection that has not been checked for the longest time, if its check is due. */
  async function takeNext(): Promise<Connection | undefined> {
    const due = sql`(
      select id from ${connections}
      where ${connections.checkedAt} <= now() - make_interval(hours => ${checkEvery})
        and ${connections.brokenSince} is null and ${isOfConfigured(providers, connections)}
      order by ${connections.checkedAt} limit 1
      for update skip locked
    )`
    const [connection] = await database
      .update(connections)
      .set({ checkedAt: sql`now() - make_interval(hours => ${checkEvery - againAfter})` })
      .where(inArray(connections.id, due))
      .returning()
    return connection
  }

  return {
    start() {
      running = repeatInBackground(checkNext, {
        firstMs: pollMs,
        onError(error) {
          log('checks failed', errorFields(error))
          return pollMs
        },
      })
    },
    async stop() {
      await running?.stop()
    },
  }
}
