import { createSandbox } from '../stand-ins/sandbox.ts'
import { operatorToken } from './activity/operator-answers.ts'
import { sendLastAgain } from './activity/retry-all.ts'
import { createApp } from './app.ts'
import type { Context } from './context.ts'
import { createBudgets } from './database/budgets.ts'
import { createCallCounter } from './database/call-counter.ts'
import type { Database } from './database/open.ts'
import type { HasRoom } from './database/room.ts'
import { createRateLimits } from './http/rate-limit.ts'
import type { Log } from './log.ts'
import type { Dashboard } from './page/serve.ts'
import { createChecks } from './people/checks.ts'
import { createSessions } from './people/session.ts'
import { createVault } from './people/vault.ts'
import { createProviders } from './providers/create.ts'
import { createInbox } from './relay/receive/inbox.ts'
import { createRelay } from './relay/relay.ts'
import { createCatchUp } from './relay/search/schedule.ts'
import { type RelayTimes, relayTimes } from './relay/times.ts'
import type { Addresses } from './settings/settings.ts'
import { createWatch, type PoolCounts } from './watch/watch.ts'

export interface BackendOptions {
  database: Database
  hasRoom?: HasRoom
  pool?: (() => PoolCounts) | undefined
  /** 32 bytes each, the newest first. */
  encryptionKeys: readonly Buffer[]
  addresses: Addresses
  /** The built page; undefined if another host serves it. */
  dashboard: Dashboard | undefined
  /** True if no other process uses this database. Leases in it are then from a dead process. */
  alone: boolean
  trustedProxies?: number
  metricsToken?: string | undefined
  hstsMaxAge?: number | undefined
  log: Log
  now?: () => Date
  times?: RelayTimes
}

/** Creates the whole backend. Opens no port and no file, and does not start its work in the background. */
export function createBackend({
  database,
  hasRoom = () => true,
  pool,
  encryptionKeys,
  addresses,
  dashboard,
  alone,
  trustedProxies = 0,
  metricsToken,
  hstsMaxAge,
  log,
  now = () => new Date(),
  times = relayTimes,
}: BackendOptions) {
  const { appUrl, apiUrl } = addresses
  const vault = createVault(encryptionKeys)
  const encryptionKey = encryptionKeys.at(-1)
  if (encryptionKey === undefined) throw new Error('There is no encryption key.')
  const countCall = alone ? undefined : createCallCounter(database)
  const providers = createProviders(addresses.providers, {
    countCall,
    spend: createBudgets(database),
  })
  const limits = createRateLimits({ trustedProxies, log })
  const relay = createRelay({ database, vault, providers, log, alone, countCall, times })
  const inbox = createInbox(database, relay.wake)
  const catchUp = createCatchUp({ database, vault, providers, inbox, log })
  const checks = createChecks({ database, vault, providers, log, sendLastAgain })
  const context: Context = {
    database,
    vault,
    providers,
    sessions: createSessions(database, { appUrl, encryptionKey, now }),
    limits,
    inbox,
    wakeRelay: relay.wake,
    operatorToken: operatorToken(encryptionKeys),
    watch: createWatch({ database, hasRoom, providers, pool, turnedAt: relay.turnedAt, log }),
    metricsToken,
    hstsMaxAge,
    appUrl,
    apiUrl,
    now,
    log,
  }
  const app = createApp(context, { dashboard, sandbox: createSandbox(addresses) })
  return { ...context, app, relay, catchUp, checks }
}
