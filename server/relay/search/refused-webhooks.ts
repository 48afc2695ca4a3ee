import type { Log } from '../../log.ts'
import type { WebhookRefusal } from '../../providers/provider.ts'

/** A flood must fill neither the log nor the CRM's limits. */
const everyMs = 60_000

export interface RefusedWebhooks {
  count(why: WebhookRefusal): void
}

/**
 * Counts refused webhooks. At most once a minute, it logs the counts and asks for a search for missed
 * changes: the CRM may have sent what we refused, and it stops repeating it after a day.
 */
export function countRefusedWebhooks({
  log,
  now,
  searchSoon,
}: {
  log: Log
  now: () => Date
  searchSoon: () => void
}): RefusedWebhooks {
  const counts = { signature: 0, time: 0, missing: 0 }
  const since = now().toISOString()
  let isUnreported = false
  /** A webhook was refused that may be from the CRM. */
  let mayBeMissed = false
  let timer: NodeJS.Timeout | undefined

  function report(): void {
    timer = undefined
    if (!isUnreported) return
    log('webhooks refused', { refused: { ...counts }, since })
    if (mayBeMissed) searchSoon()
    isUnreported = false
    mayBeMissed = false
    // What is refused within a minute from now is reported at its end.
    timer = setTimeout(report, everyMs).unref()
  }

  return {
    count(why) {
      counts[why]++
      isUnreported = true
      // The CRM signs all its webhooks.
      mayBeMissed ||= why !== 'missing'
      if (timer === undefined) report()
    },
  }
}
