import { useId, useMemo, useRef } from 'react'
import type { ActivityItem } from '../../contract/features/activity.ts'
import { pageSize, useActivity } from '../api/activity.ts'
import { serverTime } from '../api/server-time.ts'
import { Button } from '../ui/Button.tsx'
import { dayName } from '../ui/dates.ts'
import { focusInPlace } from '../ui/focus.ts'
import { count, ended } from '../ui/words.ts'
import { ActivityFailure } from './ActivityFailure.tsx'
import { ActivityRow } from './ActivityRow.tsx'
import { SearchAndRule, StateFilter } from './ActivityTools.tsx'
import { useFilter } from './activity-filter.ts'
import { NoMessages } from './NoMessages.tsx'
import { OlderMessages } from './OlderMessages.tsx'
import { SendAllAgain, SendFoundAgain } from './SendAllAgain.tsx'

/** The messages that the address asks for, the newest first. */
export function ActivityList() {
  const headingId = useId()
  const heading = useRef<HTMLHeadingElement>(null)
  const filter = useFilter()
  const { pages, refreshes, items, firstPage, newCount, showNewest } = useActivity(filter)
  const { isPlaceholderData } = pages
  const { doubt, shown } = useMemo(() => saidOnce(items), [items])
  const isLoading = pages.data === undefined && !pages.isFetched
  const loaded = pages.data?.pages.at(-1)
  const news = newCount === 0 ? '' : `${inWords(newCount)} above`
  // A change of the text is announced.
  const isQuiet = pages.isFetchingNextPage || pages.isFetchNextPageError || isPlaceholderData
  const announced = news || (loaded && `${count(loaded.items.length, 'message')} loaded.`)

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
          {filter.counts && <SearchAndRule />}
        </div>
        <StateFilter counts={firstPage?.counts} />
      </div>
      <div tabIndex={-1} className="relative flex flex-col gap-4 outline-none">
        <ActivityFailure what="The messages" query={pages.data ? refreshes : pages} />
        <p
          role="status"
          className={
            isLoading
              ? 'loading-activity min-h-svh'
              : 'absolute top-0 left-0 [clip-path:inset(50%)]'
          }
        >
          {isLoading ? 'Loading messages…' : !isQuiet && announced}
        </p>
        {filter.state === 'failed' &&
          loaded &&
          (filter.q || filter.rule || filter.day ? (
            // The former list counts what another filter finds. Nor may the result of one filter stay for another.
            <SendFoundAgain
              key={JSON.stringify(filter)}
              found={isPlaceholderData ? undefined : firstPage?.retryable}
            />
          ) : (
            <SendAllAgain hasFailed={items.some((item) => item.state === 'failed')} />
          ))}
        {news && (
          <div className="sticky top-3 z-10 -mb-4 flex h-0 justify-center">
            <Button
              kind="primary"
              onClick={() => {
                void showNewest()
                focusInPlace(heading.current)
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
          {items.length === 0 && loaded?.next === null && <NoMessages />}
          {doubt && (
            <p className="-mb-2 text-sm text-muted">{`Of each sent message: ${ended(doubt)}`}</p>
          )}
          <Days items={shown} />
          <OlderMessages pages={pages} />
        </div>
      </div>
    </section>
  )
}

/** If the same is not known of all messages that were sent, it stands once above the list, and not in each row. */
function saidOnce(items: readonly ActivityItem[]) {
  const [first, ...others] = items.filter(({ state }) => state === 'sent')
  const doubt = first?.reason ?? null
  const isCommon = others.length > 0 && others.every(({ reason }) => reason === doubt)
  if (doubt === null || !isCommon) return { doubt: null, shown: items }
  const shown = items.map((item) => (item.state === 'sent' ? { ...item, reason: null } : item))
  return { doubt, shown }
}

/** The backend answers one page of new messages. */
const inWords = (newCount: number) =>
  newCount < pageSize ? count(newCount, 'new message') : `${pageSize} or more new messages`

/** Messages, with a card for each day. */
function Days({ items }: { items: readonly ActivityItem[] }) {
  const today = serverTime()
  const days = new Map<string, ActivityItem[]>()
  for (const item of items) {
    const day = dayName(item.at, today)
    days.set(day, [...(days.get(day) ?? []), item])
  }
  return [...days].map(([day, ofDay]) => (
    <section key={day} aria-label={day} className="card gap-0 px-4 pt-3 pb-1 sm:px-6">
      <h3 className="text-sm font-semibold text-muted">{day}</h3>
      <ol className="divide-y divide-line">
        {ofDay.map((item) => (
          <ActivityRow key={item.id} item={item} />
        ))}
      </ol>
    </section>
  ))
}
