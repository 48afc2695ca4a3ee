import { useQuery } from '@tanstack/react-query'
import { previewAnswer, previewCall } from '../../contract/features/preview.ts'
import { config } from '../config.ts'
import { getJson } from './client.ts'
import { useCanAsk } from './connections.ts'
import { featuresKey } from './keys.ts'
import { callOptions, whileFailed } from './query-client.ts'

const { feature, path } = previewCall

/** How many answers to load at most, while they are not complete. */
const mostTries = 6

const previewQuery = callOptions({
  queryKey: [...featuresKey, 'preview'],
  queryFn: () => getJson(`${path}?days=7`, previewAnswer),
  // The backend may need seconds for an answer, and a week changes slowly.
  staleTime: 10 * 60_000,
  // The backend may still work on an answer that is not complete. Most answers need few seconds. If it has too
  // many deals, it stays so.
  refetchInterval: (query) => {
    const { data, dataUpdateCount } = query.state
    return data?.complete === false && dataUpdateCount < mostTries
      ? Math.min(1_000 * 2 ** dataUpdateCount, 15_000)
      : whileFailed(query)
  },
  meta: { action: 'Loading the preview of messages' },
})

/**
 * What each rule alone would have sent in the last seven days. Makes no call if the backend does not offer
 * it, or while the CRM is not connected.
 */
export const usePreview = () =>
  useQuery({ ...previewQuery, enabled: useCanAsk(config.crm, feature) })
