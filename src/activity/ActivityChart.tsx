import { type ReactNode, useId } from 'react'
import { summaryDays, useSummary } from '../api/summary.ts'
import { written } from '../ui/words.ts'
import { ActivityFailure } from './ActivityFailure.tsx'
import { Bar, DailyChart } from './DailyChart.tsx'

/** How many messages were sent and have failed on each of the last days. */
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
          <DailyChart days={days} highest={highest} />
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
const room = 'min-h-53 max-[22.5rem]:min-h-57'
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
