import type { ReactNode } from 'react'
import type { FeatureName } from '../../contract/features.ts'
import { useIsConnected } from '../api/connections.ts'
import { useHasFeature } from '../api/health.ts'
import { config } from '../config.ts'

/**
 * A part beyond §7, below a connected service. It is there if the backend offers its feature, with `needsCrm` only while
 * the CRM is connected. `className` keeps the place of a part that loads later, so that it moves nothing. With
 * `empty:hidden`, it keeps none for a part that is often empty.
 */
export function Part({
  feature,
  needsCrm = false,
  className,
  children,
}: {
  feature: FeatureName
  needsCrm?: boolean
  className: string
  children: ReactNode
}) {
  const isOffered = useHasFeature(feature)
  const isCrmConnected = useIsConnected(config.crm)
  return isOffered && (isCrmConnected || !needsCrm) && <div className={className}>{children}</div>
}
