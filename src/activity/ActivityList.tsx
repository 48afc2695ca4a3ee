import { type ReactNode, useId, useRef } from 'react'
import type { ActivityItem } from '../../contract/features/activity.ts'
import { pageSize, useActivity } from '../api/activity.ts'
import { useCanRetryAll } from '../api/retry-all.ts'
import { serverTime } from '../api/server-time.ts'
import { useConnectFirst, useSummary } from '../api/summary.ts'
import { Button } from '../ui/Button.tsx'
import { passToBox } from '../ui/focus.ts'
import { count, dayName } from '../ui/words.ts'
import { ActivityFailure } from './ActivityFailure.tsx'
import { ActivityRow } from './ActivityRow.tsx'
import { SearchAndRule, StateFilter } from './ActivityTools.tsx'
import { useFilter } from './activity-filter.ts'
import { NoMessages } from './NoMessages.tsx'
import { SendAllAgain, SendFoundAgain } from './SendAllAgain.tsx'

/** The messages that the address asks for, the newest first. */
export function ActivityList() {
  const headingId = useId()
  const filter = useFilter()
  const { pages, now, items: listed, about, added, showNewest } = useActivity(filter)
  const { isFetchingNextPage, isFetchNextPageError, isPlaceholderData } = pages
  const connectFirst = useConnectFirst()
  const heading = useRef<HTMLHeadingElement>(null)
  // The summary decides whether 'Send all again' stands above the list, and what the buttons of failed messages do. If
  // it came later, it would move the list, and change a button that the user is about to click.
  const isCounted = useSummary().isFetched
  const hasRow = useCanRetryAll() && filter.state === 'failed'
  const hasFailed = listed.some((item) => item.state === 'failed')
  const isLoading =
    (pages.data === undefined && !pages.isFetched) || ((hasRow || hasFailed) && !isCounted)
  const data = isLoading ? undefined : pages.data
  const items = data ? listed : []
  const last = data?.pages.at(-1)
  const today = serverTime()
  const next = last?.next ?? null
  const searched = last?.searchedTo == null ? null : dayName(last.searchedTo, today)
  const news = added === 0 ? '' : `${newCount(added)} above`
  // A change of the text is announced.
  const isQuiet = isFetchingNextPage || isFetchNextPageError || isPlaceholderData
  const announced = isQuiet
    ? ''
    : news || (last && `${count(last.items.length, 'message')} loaded.`)

  return (
    <section aria-labelledby={headingId} className="flex flex-col gap-4">
      <div className="flex flex-col gap-2">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <h2
            ref={heading}
            id={headingId}
            tabIndex={-1}
            className="text-lg font-semibold outline-none"
          >
            Messages
          </h2>
          {filter.counts && <SearchAndRule filter={filter} />}
        </div>
        <StateFilter filter={filter} counts={data && about?.counts} />
      </div>
      <div tabIndex={-1} className="relative flex flex-col gap-4 outline-none">
        <ActivityFailure what="The messages" query={pages.data ? now : pages} />
        <p
          role="status"
          className={
            isLoading
              ? 'loading-activity min-h-svh'
              : 'absolute top-0 left-0 [clip-path:inset(50%)]'
          }
        >
          {isLoading ? 'Loading messages…' : announced}
        </p>
        {hasRow &&
          !isLoading &&
          (filter.q || filter.rule || filter.day ? (
            // The former list counts what another filter finds. Nor may the result of one filter stay for another.
            <SendFoundAgain
              key={JSON.stringify(filter)}
              filter={filter}
              found={isPlaceholderData ? undefined : about?.retryable}
            />
          ) : (
            <SendAllAgain hasFailed={hasFailed} />
          ))}
        {data && news && (
          <div className="sticky top-3 z-10 -mb-4 flex h-0 justify-center">
            <Button
              kind="primary"
              onClick={() => {
                void showNewest()
                heading.current?.focus({ preventScroll: true })
                heading.current?.scrollIntoView()
              }}
            >
              {news}
            </Button>
          </div>
        )}
        {/* The former list is dimmed while another one loads. */}
        <div
          aria-busy={isPlaceholderData}
          className="flex flex-col gap-4 transition-opacity aria-busy:opacity-60 motion-reduce:transition-none"
        >
          {data !== undefined && items.length === 0 && next === null && (
            <NoMessages filter={filter} />
          )}
          {byDay(items, today).map(([day, some]) => (
            <Day key={day} name={day}>
              {some.map((item) => (
                <ActivityRow key={item.id} item={item} connectFirst={connectFirst} />
              ))}
            </Day>
          ))}
          {(items.length > 0 || next !== null) && (
            // It takes the focus when the button disappears.
            <div tabIndex={-1} className="flex flex-wrap items-center gap-3 text-sm outline-none">
              {next === null ? (
                <p className="text-muted">There are no older messages.</p>
              ) : (
                <Button
                  ref={passToBox}
                  busy={isFetchingNextPage || isPlaceholderData}
                  onClick={() => void pages.fetchNextPage({ cancelRefetch: false })}
                >
                  {isFetchingNextPage
                    ? 'Loading…'
                    : searched === null
                      ? 'Load older'
                      : 'Search older'}
                </Button>
              )}
              {searched !== null && (
                <p className="text-muted">
                  {`${items.length === 0 ? 'No message found yet. ' : ''}Searched back to ${searched}.`}
                </p>
              )}
              <p role="status">
                {isFetchNextPageError &&
                  `❌ Failed to load older messages. ${pages.error?.message}.`}
              </p>
            </div>
          )}
        </div>
      </div>
    </section>
  )
}

function Day({ name, children }: { name: string; children: ReactNode }) {
  const headingId = useId()
  return (
    <section aria-labelledby={headingId} className="card gap-0 px-4 pt-3 pb-1 sm:px-6">
      <h3 id={headingId} className="text-sm font-semibold text-muted">
        {name}
      </h3>
      <ol className="divide-y divide-line">{children}</ol>
    </section>
  )
}

/** The backend answers one page of them. */
const newCount = (added: number) =>
  added < pageSize ? count(added, 'new message') : `${pageSize} or more new messages`

/** The items of each day. */
function byDay(items: readonly ActivityItem[], today: number) {
  const days = new Map<string, ActivityItem[]>()
  for (const item of items) {
    const day = dayName(item.at, today)
    days.set(day, [...(days.get(day) ?? []), item])
  }
  return [...days]
}
