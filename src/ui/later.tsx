import { type ComponentType, lazy, Suspense } from 'react'
import { Boundary } from './Boundary.tsx'

/**
 * A component whose script loads when it is first shown. Until then its place is empty, so who shows it reserves the
 * room. Without the script, the rest of the page stays as it is.
 */
export function later<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> {
  const Part: ComponentType<Props> = lazy(async () => ({
    default: await load().catch(() => {
      console.error('Loading what goes beyond section 7 failed')
      return () => null
    }),
  }))
  return (props) => (
    <Boundary>
      <Suspense>
        <Part {...props} />
      </Suspense>
    </Boundary>
  )
}
