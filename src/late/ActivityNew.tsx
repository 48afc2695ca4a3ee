import { useEffect, useRef, useState } from 'react'
import type { ActivityItem } from '../../contract/activity.ts'
import { count } from './words.ts'

/**
 * Says how many messages came above what the user reads, and leads there. The messages themselves do not move
 * what is in sight (KeepPosition.tsx).
 */
export function ActivityNew({ items }: { items: readonly ActivityItem[] }) {
  const top = useRef<HTMLDivElement>(null)
  const newest = items[0]?.id
  /** The newest message when the top of the list was last in sight. */
  const [seen, setSeen] = useState(newest)
  useEffect(() => {
    const look = () => {
      if ((top.current?.getBoundingClientRect().top ?? 0) >= 0) setSeen(newest)
    }
    look()
    window.addEventListener('scroll', look, { passive: true })
    return () => window.removeEventListener('scroll', look)
  }, [newest])

  // If the list has started again, nothing tells how many are new.
  const added = Math.max(
    0,
    items.findIndex(({ id }) => id === seen),
  )
  return (
    <>
      <div ref={top} className="absolute top-0" />
      <div role="status" className="activity-new">
        {added > 0 && (
          <button
            type="button"
            className="button button-primary rounded-full"
            onClick={() => {
              const section = top.current?.closest('section')
              section?.querySelector('h2')?.focus({ preventScroll: true })
              section?.scrollIntoView()
            }}
          >
            {`${count(added, 'new message')} above`}
          </button>
        )}
      </div>
    </>
  )
}
