import { Link } from '@tanstack/react-router'
import { type ReactNode, type SVGProps, useId } from 'react'
import type { Summary } from '../../contract/features/activity.ts'
import { summaryDays, useSummary } from '../api/summary.ts'
import { count, dateName, written } from '../ui/words.ts'
import { ActivityFailure } from './ActivityFailure.tsx'
import { useFilter } from './activity-filter.ts'

type Daily = Summary['daily'][number]

/** How many messages were sent and have failed on each of the last days. A day filters the list, if the backend can. */
export function ActivityChart() {
  // The list is new when the page opens. Its numbers must not differ.
  const summary = useSummary({ refetchOnMount: 'always' })
  const headingId = useId()
  // Each date once, whatever the backend answers.
  const byDate = new Map(summary.data?.daily.map((day) => [day.date, day]))
  const days = [...byDate.values()].slice(-summaryDays)
  const total = (kind: 'sent' | 'failed') => days.reduce((sum, day) => sum + day[kind], 0)
  const highest = Math.max(0, ...days.map(({ sent, failed }) => sent + failed))

  return (
    <section aria-labelledby={headingId} className="card gap-2 p-4 sm:px-6">
      <div className="flex flex-wrap items-center justify-between gap-x-5 gap-y-1">
        <h2 id={headingId} tabIndex={-1} className="text-lg font-semibold outline-none">
          {`Last ${summaryDays} days`}
        </h2>
        {/* Its room is there before its numbers, which need two lines on a narrow phone. */}
        <ul className="flex min-h-5 max-[22.5rem]:min-h-10 flex-wrap content-start gap-x-4 text-sm tabular-nums max-sm:basis-full">
          {summary.data && (
            <>
              <Key sign={<Bar width={12} height={12} />}>{`${written(total('sent'))} sent`}</Key>
              <Key sign={<Bar x={0.5} y={0.5} width={11} height={11} isFailed />}>
                {`${written(total('failed'))} failed`}
              </Key>
              <li>{`${written(summary.data.waiting)} waiting`}</li>
            </>
          )}
        </ul>
      </div>
      <div tabIndex={-1} className="flex flex-col gap-4 outline-none">
        <ActivityFailure what="The chart" query={summary} room={room} />
        {highest > 0 ? (
          <Chart days={days} highest={highest} />
        ) : (
          <p
            role="status"
            className={
              summary.data || !summary.isFetched
                ? `${room} grid place-items-center text-muted`
                : 'absolute [clip-path:inset(50%)]'
            }
          >
            {summary.data ? 'Nothing sent yet' : !summary.isFetched && 'Loading the chart…'}
          </p>
        )}
      </div>
    </section>
  )
}

/** That of the chart, while it loads. */
const room = 'min-h-42'
/** In pixels. */
const height = 124
/** A day with one message is visible beside a day with 10,000. */
const lowestBar = 3

/** The bars are a picture. Each day has a link, or a text, with its figures, which show above the bars. */
function Chart({ days, highest }: { days: readonly Daily[]; highest: number }) {
  const { day: chosen, counts: canChoose } = useFilter()
  const heightOf = (some: number) =>
    some === 0 ? 0 : Math.max(((height - lowestBar) * some) / highest, lowestBar)
  // Percentages fit every width.
  const share = (position: number) => `${(100 * position) / days.length}%`

  return (
    <div className="relative text-xs text-muted tabular-nums">
      <p className="h-6">{`Highest day: ${count(highest, 'message')}`}</p>
      <ol aria-label="Messages by day" className="absolute inset-0 flex">
        {days.map(({ date, sent, failed }) => {
          const figures = (
            <span className="pointer-events-none absolute inset-x-0 top-0 h-6 bg-surface text-ink opacity-0 group-hover:z-2 group-hover:opacity-100 group-focus-visible:z-1 group-focus-visible:opacity-100 group-aria-[current]:opacity-100">
              {`${dateName(date)}: ${written(sent)} sent, ${written(failed)} failed`}
            </span>
          )
          return (
            <li key={date} className="min-w-0 flex-1 pt-6">
              {canChoose ? (
                <Link
                  from="/activity"
                  to="/activity"
                  search={(former) => ({ ...former, day: date === chosen ? undefined : date })}
                  resetScroll={false}
                  className="chart-day group block h-full rounded-sm hover:bg-line/40 aria-[current]:bg-line/40 forced-colors:border forced-colors:border-transparent forced-colors:hover:border-[Highlight] forced-colors:aria-[current]:border-[Highlight]"
                >
                  {figures}
                </Link>
              ) : (
                <span className="group block h-full">{figures}</span>
              )}
            </li>
          )
        })}
      </ol>
      {/* Above the colour of a day, and below the pointer. */}
      <svg
        aria-hidden="true"
        width="100%"
        height={height}
        className="pointer-events-none relative block"
      >
        {days.map(({ date, sent, failed }, index) => {
          const bar = { x: share(index + 0.2), width: share(0.6) }
          const top = height - heightOf(sent)
          return (
            <g key={date}>
              <Bar {...bar} y={top} height={heightOf(sent)} />
              <Bar {...bar} y={top - heightOf(failed)} height={heightOf(failed)} isFailed />
            </g>
          )
        })}
        <line x2="100%" y1={height} y2={height} className="stroke-current stroke-2" />
      </svg>
      <p aria-hidden="true" className="flex justify-between pt-1">
        <span>{dateName(days[0]?.date ?? '')}</span>
        <span>{days.length > 1 && dateName(days.at(-1)?.date ?? '')}</span>
      </p>
    </div>
  )
}

/** One kind of bar, and its number of messages. */
function Key({ sign, children }: { sign: ReactNode; children: ReactNode }) {
  return (
    <li className="flex items-center gap-1.5">
      <svg aria-hidden="true" width={12} height={12} className="shrink-0">
        {sign}
      </svg>
      <span>{children}</span>
    </li>
  )
}

/** A bar. That of failed messages is hollow, so that colour is not the only sign. */
function Bar({ isFailed, ...place }: SVGProps<SVGRectElement> & { isFailed?: true }) {
  if (place.height === 0) return null
  const style = isFailed
    ? 'fill-none stroke-bad forced-colors:stroke-[CanvasText]'
    : 'fill-accent forced-colors:fill-[CanvasText]'
  return <rect {...place} rx={2} className={style} />
}
