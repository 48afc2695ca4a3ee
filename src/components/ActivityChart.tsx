import { type ReactNode, useId } from 'react'
import type { Summary } from '../../contract/activity.ts'
import { summaryDays, useSummary } from '../api/summary.ts'
import { ActivityFailure } from './ActivityFailure.tsx'
import { ActivityPlace } from './ActivityPlace.tsx'
import { dateName, monthName } from './activity-times.ts'

/** How many messages were sent and have failed on each of the last days: a chart and a table. */
export function ActivityChart() {
  const summary = useSummary()
  const headingId = useId()
  return (
    <section aria-labelledby={headingId} className="card p-4 sm:p-6">
      <h2 id={headingId} tabIndex={-1} className="text-lg font-semibold outline-none">
        Last {summaryDays} days
      </h2>
      <ActivityPlace>
        <ActivityFailure what="The chart" query={summary} />
        {summary.data ? (
          <Chart summary={summary.data} />
        ) : (
          <p role="status" className="loading-chart">
            {!summary.isFetched && 'Loading the chart…'}
          </p>
        )}
      </ActivityPlace>
    </section>
  )
}

// In pixels. The bars stand on the line at `floor`; the labels are below it.
const ceiling = 24
const floor = 128
const height = 164
/** A day with one message is visible beside a day with 10,000. */
const lowestBar = 3

function Chart({ summary }: { summary: Summary }) {
  const hatchId = useId()
  // Each date once, whatever the backend answers.
  const byDate = new Map(summary.daily.map((day) => [day.date, day]))
  const days = [...byDate.values()].slice(-summaryDays)
  const total = (kind: 'sent' | 'failed') => days.reduce((sum, day) => sum + day[kind], 0)
  const top = niceCeiling(Math.max(...days.map(({ sent, failed }) => sent + failed)))
  const heightOf = (count: number) =>
    count === 0 ? 0 : Math.max(((floor - ceiling) * count) / top, lowestBar)
  /** A horizontal position: so many days from the left. Percentages fit every width. */
  const x = (position: number) => `${(100 * position) / days.length}%`

  return (
    <>
      <ul className="grid grid-cols-2 gap-x-5 gap-y-1 text-sm sm:flex">
        <Key sign={<rect width={12} height={12} rx={2} className="chart-sent" />}>
          {number(total('sent'))} sent
        </Key>
        <Key sign={<Failed x={0.5} y={0.5} width={11} height={11} fill={`url(#${hatchId})`} />}>
          {number(total('failed'))} failed
        </Key>
        <li>{number(summary.waiting)} waiting</li>
      </ul>
      {/* The table has the same numbers. */}
      <svg aria-hidden="true" width="100%" height={height} className="overflow-visible text-xs">
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
        <text y={ceiling - 8} className="chart-label">
          {number(top)}
        </text>
        {[ceiling, (ceiling + floor) / 2].map((y) => (
          <line key={y} x2="100%" y1={y} y2={y} className="chart-line" />
        ))}
        {days.map(({ date, sent, failed }, index) => {
          const month = monthName(date)
          const isNewMonth = index === 0 || month !== monthName(days[index - 1]?.date ?? '')
          const sentTop = floor - heightOf(sent)
          return (
            <g key={date}>
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
              <text x={x(index + 0.5)} y={floor + 16} textAnchor="middle" className="chart-label">
                {Number(date.slice(8))}
              </text>
              {isNewMonth && (
                <text x={x(index + 0.2)} y={floor + 32} className="chart-label">
                  {month}
                </text>
              )}
              {/* Shows its title wherever the pointer is above the day. */}
              <rect x={x(index)} width={x(1)} height={height} fill="transparent">
                <title>{`${dateName(date)}: ${number(sent)} sent, ${number(failed)} failed`}</title>
              </rect>
            </g>
          )
        })}
        <line x2="100%" y1={floor} y2={floor} className="chart-floor" />
      </svg>
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
                <td className="text-right">{number(sent)}</td>
                <td className="text-right">{number(failed)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
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

const number = (count: number) => count.toLocaleString('en')
