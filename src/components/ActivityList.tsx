import { Link } from '@tanstack/react-router'
import { useEffect, useId, useState } from 'react'
import { type ActivityItem, type ActivityState, activityStates } from '../../contract/activity.ts'
import { useActivity } from '../api/activity.ts'
import { useHasFeature } from '../api/health.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { buttonStyle } from '../ui/button-style.ts'
import { ActivityFailure, messageOf } from './ActivityFailure.tsx'
import { ActivityPlace } from './ActivityPlace.tsx'
import { ActivityRow } from './ActivityRow.tsx'
import { dayName } from './activity-times.ts'

const filters = [undefined, ...activityStates]
const filterNames = { sent: 'Sent', waiting: 'Waiting', failed: 'Failed', skipped: 'Skipped' }

/** The messages in a state, or all of them, the newest first. */
export function ActivityList({ state }: { state: ActivityState | undefined }) {
  const headingId = useId()
  return (
    <section aria-labelledby={headingId} className="activity-list flex flex-col gap-4">
      <h2 id={headingId} className="text-lg font-semibold">
        Messages
      </h2>
      <nav aria-label="Messages by state">
        <ul className="flex flex-wrap gap-1">
          {filters.map((each) => (
            <li key={each ?? 'all'}>
              <Link
                to="/activity"
                search={{ state: each }}
                activeOptions={{ exact: true, includeSearch: true }}
                resetScroll={false}
                className="activity-filter"
              >
                {each === undefined ? 'All' : filterNames[each]}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      {/* A new list for each state: nothing of the last one may remain. */}
      <Messages key={state} state={state} />
    </section>
  )
}

function Messages({ state }: { state: ActivityState | undefined }) {
  const { items, updates, ...loaded } = useActivity(state)
  const [announced, setAnnounced] = useState('')
  const isLoaded = loaded.data !== undefined

  // Announce the first result, but no refresh: the count changes with each new message.
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above.
  useEffect(() => {
    if (isLoaded) setAnnounced(countOf(items.length))
  }, [isLoaded])

  async function loadOlder() {
    setAnnounced('')
    // By default, the second click of a double click makes the call again.
    const { data, isError } = await loaded.fetchNextPage({ cancelRefetch: false })
    if (!isError) setAnnounced(countOf(data?.pages.at(-1)?.items.length ?? 0))
  }

  return (
    <ActivityPlace>
      <ActivityFailure what="The messages" query={isLoaded ? updates : loaded} />
      <p role="status" className={loaded.isFetched ? 'activity-announced' : 'loading-activity'}>
        {loaded.isFetched ? announced : 'Loading messages…'}
      </p>
      {isLoaded && items.length === 0 && <NoMessages state={state} />}
      {byDay(items).map(([day, some]) => (
        <Day key={day} name={day} items={some} />
      ))}
      {items.length > 0 && (
        // It takes the focus when the button disappears.
        <div tabIndex={-1} className="flex flex-wrap items-center gap-3 text-sm outline-none">
          {loaded.hasNextPage ? (
            <Button busy={loaded.isFetchingNextPage} onClick={() => void loadOlder()}>
              {loaded.isFetchingNextPage ? 'Loading…' : 'Load older'}
            </Button>
          ) : (
            <p className="text-muted">There are no older messages.</p>
          )}
          <p role="status">
            {loaded.isFetchNextPageError &&
              `❌ Failed to load older messages. ${messageOf(loaded.error)}`}
          </p>
        </div>
      )}
    </ActivityPlace>
  )
}

function Day({ name, items }: { name: string; items: readonly ActivityItem[] }) {
  const headingId = useId()
  return (
    <section aria-labelledby={headingId} className="card gap-0 px-4 pt-4 sm:px-6">
      <h3 id={headingId} className="text-sm font-semibold text-muted">
        {name}
      </h3>
      <ol className="divide-y divide-line">
        {items.map((item) => (
          <ActivityRow key={item.id} item={item} />
        ))}
      </ol>
    </section>
  )
}

function NoMessages({ state }: { state: ActivityState | undefined }) {
  const canSendTest = useHasFeature('test-message')
  if (state !== undefined) return <p className="text-muted">{noneOf[state]}</p>
  return (
    <div className="card items-start p-4 sm:p-6">
      <div>
        <p className="font-medium">No messages yet</p>
        <p className="text-muted">
          Move a deal in {config.crm.name}
          {canSendTest && ', or send a test message'}.
        </p>
      </div>
      <Link to="/" className={buttonStyle.secondary}>
        Go to the dashboard
      </Link>
    </div>
  )
}

const noneOf: Record<ActivityState, string> = {
  sent: 'No message has been sent yet.',
  waiting: 'No message is waiting.',
  failed: 'No message has failed.',
  skipped: 'No message has been skipped.',
}

const countOf = (count: number) => `${count} ${count === 1 ? 'message' : 'messages'} loaded.`

function byDay(items: readonly ActivityItem[]): [day: string, items: ActivityItem[]][] {
  const now = new Date()
  const days = new Map<string, ActivityItem[]>()
  for (const item of items) {
    const day = dayName(item.at, now)
    const some = days.get(day)
    if (some === undefined) days.set(day, [item])
    else some.push(item)
  }
  return [...days]
}
