import type { Log } from '../log.ts'
import type { WebhookRefusal } from '../providers/provider.ts'

/** A flood must not fill the log. */
const everyMs = 60_000

export interface RefusedWebhooks {
  /** `address`: somebody sends to an address below /webhooks/ that is none of ours. */
  count(why: WebhookRefusal | 'address'): void
}

/** Counts refused webhooks, and logs the counts at most once a minute. */
export function countRefusedWebhooks({ log, now }: { log: Log; now: () => Date }): RefusedWebhooks {
  const counts = { signature: 0, time: 0, missing: 0, address: 0 }
  const since = now().toISOString()
  let isUnreported = false
  let timer: NodeJS.Timeout | undefined

  function report(): void {
    timer = undefined
    if (!isUnreported) return
    log.warn('webhooks refused', { refused: { ...counts }, since })
    isUnreported = false
    // What is refused within a minute from now is reported at its end.
    timer = setTimeout(report, everyMs).unref()
  }

  return {
    count(why) {
      counts[why]++
      isUnreported = true
      if (timer === undefined) report()
    },
  }
}
