import type { Preview } from '../../contract/features/preview.ts'
import { createCache } from '../cache.ts'
import type { AccessDependencies, CrmConnection } from '../people/access-token.ts'
import { isLasting } from '../providers/provider-error.ts'
import { createPreviewReader, previewDays, type ReadLimits, readLimits } from './read-preview.ts'

const freshMs = 10 * 60_000
/** If a read fails, its error is the answer for so long. Each page asks again sooner than that, and each read costs. */
const failedMs = 5 * 60_000
/** Fewer users than this open the dashboard within ten minutes. */
const mostKept = 5_000

type Outcome = { preview: Preview } | { error: unknown }

/**
 * Creates the function that returns what each rule alone would have sent to a connection's user in the last days. The
 * first call starts to read that in the background. Until the read ends, the `rules` are empty.
 * @throws ProviderError
 */
export function createPreview(
  dependencies: AccessDependencies,
  limits: ReadLimits = readLimits,
  now: () => number = () => performance.now(),
): (connection: CrmConnection) => Preview {
  const readPreview = createPreviewReader(dependencies, limits)
  const outcomes = createCache<Outcome, string, CrmConnection>(mostKept, {
    ttl: freshMs,
    perf: { now },
    fetchMethod: async (_key, _old, { context, options }) => {
      try {
        return { preview: await readPreview(context) }
      } catch (error) {
        options.ttl = isLasting(error) ? freshMs : failedMs
        return { error }
      }
    },
  })

  return function preview(connection) {
    // A connection keeps its id when the user connects again, perhaps to another account.
    const key = `${connection.id}/${connection.connectedAt.getTime()}`
    const outcome = outcomes.get(key)
    if (outcome === undefined) {
      void outcomes.fetch(key, { context: connection })
      return { days: previewDays, rules: {}, samples: {}, complete: false }
    }
    if ('error' in outcome) throw outcome.error
    return outcome.preview
  }
}
