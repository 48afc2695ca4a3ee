import * as v from 'valibot'
import { waitAtMost } from '../../background.ts'
import { createCache } from '../../cache.ts'
import type { CrmAccess } from '../provider.ts'
import { isOfToken } from '../provider-error.ts'
import type { HubspotHttp } from './http.ts'

const freshMs = 6 * 60 * 60_000
const afterFailureMs = 5 * 60_000
/** A message does not wait longer for the currency. The call goes on for the next messages. */
const currencyWaitMs = 1_000
/** The size of the cache. A process cannot call this many accounts within `freshMs`. */
const mostAccounts = 20_000

const accountAnswer = v.object({ companyCurrency: v.nullish(v.string(), null) })

interface Account {
  /** The last known one. */
  currency: string | null
  startedAt: number
  /** Ends when the currency is read, or the call has failed. */
  read: Promise<void>
  endsAt: number
  /** The tokens that HubSpot refused since the last answer. */
  refused: readonly string[]
}

/**
 * Creates the function that returns the currency of an account; null if the currency is not known in time. The
 * function never throws. A deal has its own currency only in an account with several currencies.
 */
export function createCurrencyCache(
  { read }: Pick<HubspotHttp, 'read'>,
  now: () => number = () => performance.now(),
) {
  const accounts = createCache<Account>(mostAccounts)

  function start(access: CrmAccess, currency: string | null, refused: readonly string[]): Account {
    const answer = read(access, '/account-info/2026-03/details', accountAnswer)
    const account: Account = {
      currency,
      startedAt: now(),
      read: answer.then(
        ({ companyCurrency }) => {
          account.currency = companyCurrency
          account.endsAt = now() + freshMs
        },
        (error: unknown) => {
          if (isOfToken(error)) account.refused = [...refused, access.accessToken]
          account.endsAt = now() + afterFailureMs
        },
      ),
      endsAt: Number.POSITIVE_INFINITY,
      refused: [],
    }
    accounts.set(access.accountId, account)
    return account
  }

  return async function currencyOf(access: CrmAccess): Promise<string | null> {
    const known = accounts.get(access.accountId)
    const isOver = known === undefined || now() >= known.endsAt
    const refused = isOver ? [] : known.refused
    // The token of another user may do.
    const mayRead = isOver || (refused.length > 0 && !refused.includes(access.accessToken))
    const account = mayRead ? start(access, known?.currency ?? null, refused) : known
    const leftMs = account.startedAt + currencyWaitMs - now()
    await waitAtMost(Math.max(0, leftMs), account.read)
    return account.currency
  }
}
