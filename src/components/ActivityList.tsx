import { Link } from '@tanstack/react-router'
import { useId } from 'react'
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
import { SendAllAgain } from './SendAllAgain.tsx'

const filters = [undefined, ...activityStates]
const filterNames = { sent: 'Sent', waiting: 'Waiting', failed: 'Failed', skipped: 'Skipped' }

/** The messages in a state, or all of them, the newest first. */
export function ActivityList({ state }: { state: ActivityState | undefined }) {
  const headingId = useId()
  return (
    <section aria-labelledby={headingId} className="activity-list flex flex-col gap-4">
      <h2 id={headingId} tabIndex={-1} className="text-lg font-semibold outline-none">
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
  const { list, older } = useActivity(state)
  const { items, next } = list.data ?? { items: [], next: null }
  // A change of the text is announced. A refresh does not change it.
  const announced = older.isPending || older.isError ? '' : list.data && loadedInWords(list.data)

  return (
    <ActivityPlace>
      <ActivityFailure what="The messages" query={list} />
      <p role="status" className={list.isFetched ? 'activity-announced' : 'loading-activity'}>
        {list.isFetched ? announced : 'Loading messages…'}
      </p>
      {state === 'failed' && (
        <SendAllAgain hasFailed={items.some((item) => item.state === 'failed')} />
      )}
      {list.data !== undefined && items.length === 0 && <NoMessages state={state} />}
      {byDay(items).map(([day, some]) => (
        <Day key={day} name={day} items={some} />
      ))}
      {items.length > 0 && (
        // It takes the focus when the button disappears.
        <div tabIndex={-1} className="flex flex-wrap items-center gap-3 text-sm outline-none">
          {next === null ? (
            <p className="text-muted">There are no older messages.</p>
          ) : (
            <Button busy={older.isPending} onClick={() => older.mutate(next)}>
              {older.isPending ? 'Loading…' : 'Load older'}
            </Button>
          )}
          <p role="status">
            {older.isError && `❌ Failed to load older messages. ${messageOf(older.error)}`}
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

function loadedInWords({
  loaded,
  startedAgain,
}: {
  loaded: number
  startedAgain: boolean
}): string {
  if (startedAgain) return 'The list starts again with the newest messages.'
  return `${loaded} ${loaded === 1 ? 'message' : 'messages'} loaded.`
}

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
