import type { Database } from './database/open.ts'
import type { RateLimits } from './http/rate-limit.ts'
import type { Log } from './log.ts'
import type { Sessions } from './people/session.ts'
import type { Vault } from './people/vault.ts'
import type { Providers } from './providers/provider.ts'
import type { Inbox } from './relay/receive/inbox.ts'
import type { Watch } from './watch/watch.ts'

/** What every route receives. */
export interface Context {
  database: Database
  vault: Vault
  providers: Providers
  sessions: Sessions
  limits: RateLimits
  inbox: Inbox
  wakeRelay: () => void
  /** The bearer token of `npm run relay`. */
  operatorToken: string
  watch: Watch
  /** The bearer token of GET /metrics. Without one, only programs on this machine may read it, if APP_URL and API_URL are there. */
  metricsToken: string | undefined
  /** Seconds of Strict-Transport-Security, if they are set. */
  hstsMaxAge: number | undefined
  appUrl: string
  apiUrl: string
  now: () => Date
  log: Log
}
