import { useQuery } from '@tanstack/react-query'
import { type Preview, previewAnswer, previewCall } from '../../contract/features/preview.ts'
import { config } from '../config.ts'
import { getJson } from './client.ts'
import { useCanAsk } from './connections.ts'
import { featuresKey } from './keys.ts'
import { callOptions, whenShown, whileFailed } from './query-client.ts'

const { feature, path } = previewCall

const previewQuery = callOptions({
  queryKey: [...featuresKey, 'preview'],
  queryFn: () => getJson(path, previewAnswer, { readsRefusal: true }),
  ...whenShown,
  // The backend needs seconds to count, and a week changes slowly.
  staleTime: 10 * 60_000,
  refetchInterval: (query) => (isCounting(query.state.data) ? 2_000 : whileFailed(query)),
  meta: { action: 'Loading the preview of messages' },
})

/** Whether the backend still counts. An account with too many deals never gets a complete answer, but counts. */
export const isCounting = (preview: Preview | undefined) =>
  preview?.complete === false && Object.keys(preview.rules).length === 0

/**
 * What each rule alone would have sent in the last seven days. Makes no call if the backend does not offer
 * it, or while the CRM is not connected.
 */
export const usePreview = () =>
  useQuery({ ...previewQuery, enabled: useCanAsk(config.crm, feature) })
