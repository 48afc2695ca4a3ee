import { Link } from '@tanstack/react-router'
import { useId } from 'react'
import type { ActivityItem, ActivityState } from '../../contract/activity.ts'
import { type ActivityFilter, useActivity } from '../api/activity.ts'
import { useHasFeature } from '../api/health.ts'
import { useCanRetryAll } from '../api/retry-all.ts'
import { useSummary } from '../api/summary.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { buttonStyle } from '../ui/button-style.ts'
import { ActivityFailure } from './ActivityFailure.tsx'
import { ActivityNew } from './ActivityNew.tsx'
import { ActivityRow } from './ActivityRow.tsx'
import { SearchAndRule, StateFilter, Updated } from './ActivityTools.tsx'
import { useFilter } from './activity-filter.ts'
import { KeepPosition } from './KeepPosition.tsx'
import { SendAllAgain, SendFoundAgain } from './SendAllAgain.tsx'
import { StandInLink } from './StandInLink.tsx'
import { count, dayName } from './words.ts'

/** The messages that the address asks for, the newest first. */
export function ActivityList() {
  const headingId = useId()
  const filter = useFilter()
  const { list, older } = useActivity(filter)
  // The summary decides whether 'Send all again' stands above the list, and what the buttons of failed messages do. If
  // it came later, it would move the list, and change a button that the user is about to click.
  const isCounted = useSummary().isFetched
  const hasRow = useCanRetryAll() && filter.state === 'failed'
  const hasFailed = list.data?.items.some((item) => item.state === 'failed')
  const isLoading =
    (list.data === undefined && !list.isFetched) || ((hasRow || hasFailed) && !isCounted)
  const data = isLoading ? undefined : list.data
  // Nothing of one list may remain in that of another filter, but the messages until the others are there.
  const key = JSON.stringify(filter)
  const { items, next, searchedTo } = data ?? { items: [], next: null, searchedTo: null }
  // A change of the text is announced. A refresh does not change it.
  const isQuiet = older.isPending || older.isError || list.isPlaceholderData
  const announced = isQuiet ? '' : data && loadedInWords(data)
  const searched = searchedTo === null ? null : dayName(searchedTo)

  return (
    <section aria-labelledby={headingId} className="activity-list flex flex-col gap-4">
      <div className="flex flex-col gap-2">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <h2 id={headingId} tabIndex={-1} className="text-lg font-semibold outline-none">
            Messages
          </h2>
          <Updated at={list.dataUpdatedAt} />
          {filter.counts && <SearchAndRule filter={filter} />}
        </div>
        <StateFilter filter={filter} counts={data?.counts} />
      </div>
      <KeepPosition>
        <ActivityFailure key={key} what="The messages" query={list} />
        <p role="status" className={isLoading ? 'loading-activity' : 'activity-announced'}>
          {isLoading ? 'Loading messages…' : announced}
        </p>
        {hasRow &&
          !isLoading &&
          (filter.q || filter.rule || filter.day ? (
            // The former list counts what another filter finds.
            <SendFoundAgain
              key={`${key} again`}
              filter={filter}
              found={list.isPlaceholderData ? undefined : data?.retryable}
            />
          ) : (
            <SendAllAgain hasFailed={hasFailed} />
          ))}
        {data !== undefined && !list.isPlaceholderData && (
          <ActivityNew key={`${key} new`} items={items} />
        )}
        {/* The former list is dimmed while another one loads. */}
        <div
          aria-busy={list.isPlaceholderData}
          className="flex flex-col gap-4 transition-opacity aria-busy:opacity-60 motion-reduce:transition-none"
        >
          {data !== undefined && items.length === 0 && next === null && (
            <NoMessages filter={filter} />
          )}
          {byDay(items).map(([day, some]) => (
            <Day key={day} name={day} items={some} />
          ))}
          {(items.length > 0 || next !== null) && (
            // It takes the focus when the button disappears.
            <div tabIndex={-1} className="flex flex-wrap items-center gap-3 text-sm outline-none">
              {next === null ? (
                <p className="text-muted">There are no older messages.</p>
              ) : (
                <Button
                  busy={older.isPending || list.isPlaceholderData}
                  onClick={() => {
                    if (!list.isPlaceholderData) older.mutate(next)
                  }}
                >
                  {older.isPending ? 'Loading…' : searched === null ? 'Load older' : 'Search older'}
                </Button>
              )}
              {searched !== null && (
                <p className="text-muted">
                  {`${items.length === 0 ? 'No message found yet. ' : ''}Searched back to ${searched}.`}
                </p>
              )}
              <p role="status">
                {older.error && `❌ Failed to load older messages. ${older.error.message}.`}
              </p>
            </div>
          )}
        </div>
      </KeepPosition>
    </section>
  )
}

function Day({ name, items }: { name: string; items: readonly ActivityItem[] }) {
  const headingId = useId()
  return (
    <section aria-labelledby={headingId} className="card gap-0 px-4 pt-3 pb-1 sm:px-6">
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

function NoMessages({ filter: { state, rule, q, day } }: { filter: ActivityFilter }) {
  const canSendTest = useHasFeature('test-message')
  if (rule !== undefined || q !== undefined || day !== undefined) {
    return (
      <div className="card items-start p-4 sm:p-6">
        <p className="text-muted">No message matches.</p>
        <Link to="/activity" search={{}} resetScroll={false} className={buttonStyle.secondary}>
          Show all messages
        </Link>
      </div>
    )
  }
  if (state !== undefined) return <p className="text-muted">{noneOf[state]}</p>
  return (
    <div className="card items-start p-4 sm:p-6">
      <div>
        <p className="font-semibold">No messages yet</p>
        <p className="text-muted">
          {`Move a deal in ${config.crm.name}${canSendTest ? ', or send a test message' : ''}.`}
        </p>
      </div>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 text-sm">
        <Link to="/" className={buttonStyle.secondary}>
          Go to the dashboard
        </Link>
        <StandInLink provider={config.crm} />
        <StandInLink provider={config.chat} />
      </div>
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
  return `${count(loaded, 'message')} loaded.`
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
