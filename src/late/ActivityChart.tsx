import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, type ReactNode, useId, useState } from 'react'
import type { Summary } from '../../contract/activity.ts'
import { summaryDays, useSummary } from '../api/summary.ts'
import { ActivityFailure } from './ActivityFailure.tsx'
import { useFilter } from './activity-filter.ts'
import { KeepPosition } from './KeepPosition.tsx'
import { dateName, shortDateName, written } from './words.ts'

type Daily = Summary['daily'][number]

/**
 * How many messages were sent and have failed on each of the last days: a chart and a table. A day of the chart
 * filters the list, if the backend can.
 */
export function ActivityChart() {
  // The list is new when the page opens. Its numbers must not differ.
  const summary = useSummary({ refetchOnMount: 'always' })
  const { day: chosen, counts: canChoose } = useFilter()
  const headingId = useId()
  const hatchId = useId()
  /** The date below the pointer, or with the focus. */
  const [pointed, setPointed] = useState<string>()

  // Each date once, whatever the backend answers.
  const byDate = new Map(summary.data?.daily.map((day) => [day.date, day]))
  const days = [...byDate.values()].slice(-summaryDays)
  const active =
    days.find(({ date }) => date === pointed) ?? days.find(({ date }) => date === chosen)
  const told = active === undefined ? days : [active]
  const total = (kind: 'sent' | 'failed') => told.reduce((sum, day) => sum + day[kind], 0)
  const isEmpty = days.every(({ sent, failed }) => sent + failed === 0)

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
              <Key sign={<rect width={12} height={12} rx={2} className="chart-sent" />}>
                {`${written(total('sent'))} sent`}
              </Key>
              <Key
                sign={<Failed x={0.5} y={0.5} width={11} height={11} fill={`url(#${hatchId})`} />}
              >
                {`${written(total('failed'))} failed`}
              </Key>
              <li>
                {active === undefined
                  ? `${written(summary.data.waiting)} waiting`
                  : `on ${shortDateName(active.date)}`}
              </li>
            </>
          )}
        </ul>
      </div>
      <KeepPosition>
        <ActivityFailure what="The chart" query={summary} room="loading-chart" />
        {summary.data && !isEmpty ? (
          <div>
            <Chart
              days={days}
              hatchId={hatchId}
              active={active?.date}
              onPoint={setPointed}
              canChoose={canChoose === true}
              chosen={chosen}
            />
            <Table days={days} />
          </div>
        ) : (
          <p
            role="status"
            className={
              summary.data || !summary.isFetched
                ? 'loading-chart grid place-items-center text-muted'
                : 'activity-announced'
            }
          >
            {summary.data ? 'Nothing sent yet' : !summary.isFetched && 'Loading the chart…'}
          </p>
        )}
      </KeepPosition>
    </section>
  )
}

// In pixels. The bars stand on the line at `floor`; the labels are below it.
const ceiling = 8
const floor = 104
const height = 124
/** A day with one message is visible beside a day with 10,000. */
const lowestBar = 3

function Chart({
  days,
  hatchId,
  active,
  onPoint,
  canChoose,
  chosen,
}: {
  days: readonly Daily[]
  hatchId: string
  active: string | undefined
  onPoint: (date: string | undefined) => void
  canChoose: boolean
  chosen: string | undefined
}) {
  const top = niceCeiling(Math.max(...days.map(({ sent, failed }) => sent + failed)))
  const heightOf = (count: number) =>
    count === 0 ? 0 : Math.max(((floor - ceiling) * count) / top, lowestBar)
  /** A horizontal position: so many days from the left. Percentages fit every width. */
  const x = (position: number) => `${(100 * position) / days.length}%`
  const last = days.length - 1
  const middle = Math.floor(last / 2)

  return (
    <div className="flex gap-2 text-xs">
      {/* The table has the same numbers. */}
      <svg aria-hidden="true" width={40} height={height} className="shrink-0 overflow-visible">
        {[top, top / 2, 0].filter(Number.isInteger).map((count) => (
          <text
            key={count}
            x={40}
            y={floor - ((floor - ceiling) * count) / top + 4}
            textAnchor="end"
            className="chart-label"
          >
            {written(count)}
          </text>
        ))}
      </svg>
      <div className="relative min-w-0 flex-1">
        <svg aria-hidden="true" width="100%" height={height} className="overflow-visible">
          <defs>
            <pattern
              id={hatchId}
              width={4}
              height={4}
              patternUnits="userSpaceOnUse"
              patternTransform="rotate(45)"
            >
              <rect width={4} height={4} className="fill-surface" />
              <rect width={1.5} height={4} className="chart-hatch" />
            </pattern>
          </defs>
          {[ceiling, (ceiling + floor) / 2].map((y) => (
            <line key={y} x2="100%" y1={y} y2={y} className="chart-line" />
          ))}
          {days.map(({ date, sent, failed }, index) => {
            const sentTop = floor - heightOf(sent)
            return (
              <g key={date}>
                {date === active && (
                  <rect x={x(index)} width={x(1)} height={floor} rx={4} className="chart-active" />
                )}
                {sent > 0 && (
                  <rect
                    x={x(index + 0.2)}
                    y={sentTop}
                    width={x(0.6)}
                    height={heightOf(sent)}
                    rx={2}
                    className="chart-sent"
                  />
                )}
                {failed > 0 && (
                  <Failed
                    x={x(index + 0.2)}
                    y={sentTop - heightOf(failed)}
                    width={x(0.6)}
                    height={heightOf(failed)}
                    fill={`url(#${hatchId})`}
                  />
                )}
                {!canChoose && (
                  <rect x={x(index)} width={x(1)} height={height} fill="transparent">
                    {/* Shows wherever the pointer is above the day. */}
                    <title>{countsOf({ date, sent, failed })}</title>
                  </rect>
                )}
              </g>
            )
          })}
          <line x2="100%" y1={floor} y2={floor} className="chart-floor" />
          {[...new Set([0, middle, last])].map((index) => (
            <text
              key={index}
              x={x(index === 0 ? 0 : index === last ? days.length : index + 0.5)}
              y={floor + 16}
              textAnchor={index === 0 ? 'start' : index === last ? 'end' : 'middle'}
              className="chart-label"
            >
              {shortDateName(days[index]?.date ?? '')}
            </text>
          ))}
        </svg>
        {canChoose && <Columns days={days} active={active} onPoint={onPoint} chosen={chosen} />}
      </div>
    </div>
  )
}

/** A button above each day. The arrow keys lead from day to day. */
function Columns({
  days,
  active,
  onPoint,
  chosen,
}: {
  days: readonly Daily[]
  active: string | undefined
  onPoint: (date: string | undefined) => void
  chosen: string | undefined
}) {
  const navigate = useNavigate({ from: '/activity' })
  const last = days.length - 1
  const current = days.findIndex(({ date }) => date === active)

  function move(event: KeyboardEvent<HTMLButtonElement>, index: number) {
    const steps: Record<string, number> = {
      ArrowLeft: index - 1,
      ArrowRight: index + 1,
      Home: 0,
      End: last,
    }
    const column = event.currentTarget.parentElement?.children[steps[event.key] ?? -1]
    if (!(column instanceof HTMLElement)) return
    event.preventDefault()
    column.focus()
  }

  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for the fields of a form.
    <div role="group" aria-label="Messages by day" className="absolute inset-0 flex">
      {days.map((day, index) => (
        <button
          key={day.date}
          type="button"
          tabIndex={index === (current === -1 ? last : current) ? 0 : -1}
          aria-label={countsOf(day)}
          aria-pressed={day.date === chosen}
          className="min-w-0 flex-1 cursor-pointer rounded-sm"
          onPointerEnter={() => onPoint(day.date)}
          onPointerLeave={() => onPoint(undefined)}
          onFocus={() => onPoint(day.date)}
          onBlur={() => onPoint(undefined)}
          onKeyDown={(event) => move(event, index)}
          onClick={() => {
            void navigate({
              search: (former) => ({
                ...former,
                day: day.date === chosen ? undefined : day.date,
              }),
              resetScroll: false,
            })
          }}
        />
      ))}
    </div>
  )
}

const countsOf = ({ date, sent, failed }: Daily) =>
  `${dateName(date)}: ${written(sent)} sent, ${written(failed)} failed`

function Table({ days }: { days: readonly Daily[] }) {
  return (
    <details className="text-sm">
      <summary className="activity-disclosure">Show as a table</summary>
      <table className="mt-2 w-full text-left">
        <caption className="pb-2 text-left text-muted">Messages on each day</caption>
        <thead>
          <tr>
            <th scope="col">Day</th>
            <th scope="col" className="text-right">
              Sent
            </th>
            <th scope="col" className="text-right">
              Failed
            </th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line tabular-nums">
          {days.map(({ date, sent, failed }) => (
            <tr key={date}>
              <th scope="row" className="py-1 font-normal">
                {dateName(date)}
              </th>
              <td className="text-right">{written(sent)}</td>
              <td className="text-right">{written(failed)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
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

/** A hatched bar with an edge, so that colour is not the only sign. */
function Failed(
  props: Record<'x' | 'width', number | string> & Record<'y' | 'height', number> & { fill: string },
) {
  return <rect {...props} rx={2} className="chart-failed" />
}

/** The lowest of 1, 2, 4, 6, 8, 10, 20, 40 and so on that is not below the count. */
function niceCeiling(count: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(count, 1)))
  return power * ([1, 2, 4, 6, 8].find((step) => step * power >= count) ?? 10)
}
