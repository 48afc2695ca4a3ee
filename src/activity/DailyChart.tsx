import { Link } from '@tanstack/react-router'
import { type SVGProps, useState } from 'react'
import type { Summary } from '../../contract/features/activity.ts'
import { dateName } from '../ui/dates.ts'
import { count, written } from '../ui/words.ts'
import { useFilter } from './activity-filter.ts'

type Daily = Summary['daily'][number]

/** In pixels. */
const height = 124
/** A day with one message is visible beside a day with 10,000. */
const lowestBar = 3

/**
 * A bar for each day, and the figures of one day. The bars are a picture below a slider, which picks the day by pointer,
 * touch and keyboard: on a phone, links of the days would be too narrow.
 */
export function DailyChart({ days, highest }: { days: readonly Daily[]; highest: number }) {
  const { day: chosen, counts: canChoose } = useFilter()
  const [picked, setPicked] = useState(chosen)
  const [hovered, setHovered] = useState<number>()
  const found = days.findIndex(({ date }) => date === picked)
  const at = found === -1 ? days.length - 1 : found
  const date = days[at]?.date
  const action = date === chosen ? 'Show all days' : 'Show this day'
  const hint = figuresOf(days[hovered ?? -1])
  const heightOf = (some: number) =>
    some === 0 ? 0 : Math.max(((height - lowestBar) * some) / highest, lowestBar)
  // Percentages fit every width.
  const share = (position: number) => `${(100 * position) / days.length}%`

  return (
    <div className="text-xs text-muted tabular-nums">
      <p className="h-6">{hint || `Highest day: ${count(highest, 'message')}`}</p>
      <div className="relative">
        <svg aria-hidden="true" width="100%" height={height} className="block">
          <rect
            x={share(at)}
            width={share(1)}
            height={height}
            className="fill-line/40 forced-colors:fill-none forced-colors:stroke-[Highlight]"
          />
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
        <input
          type="range"
          aria-label="Day"
          aria-valuetext={figuresOf(days[at])}
          max={days.length - 1}
          value={at}
          onChange={({ target }) => setPicked(days[target.valueAsNumber]?.date)}
          onPointerMove={({ nativeEvent, currentTarget }) =>
            setHovered(Math.floor((days.length * nativeEvent.offsetX) / currentTarget.clientWidth))
          }
          onPointerLeave={() => setHovered(undefined)}
          className="day-slider"
        />
      </div>
      <p aria-hidden="true" className="flex justify-between pt-1">
        <span>{dateName(days[0]?.date ?? '')}</span>
        <span>{days.length > 1 && dateName(days.at(-1)?.date ?? '')}</span>
      </p>
      <div className="flex min-h-11 flex-wrap items-center justify-between gap-x-3 max-[22.5rem]:min-h-15">
        <p className="text-ink">{figuresOf(days[at])}</p>
        {canChoose && date !== undefined && (
          <Link
            from="/activity"
            to="/activity"
            search={(former) => ({ ...former, day: date === chosen ? undefined : date })}
            resetScroll={false}
            aria-label={date === chosen ? undefined : `${action}: ${dateName(date)}`}
            className="text-link inline-flex min-h-6 items-center pointer-coarse:min-h-11"
          >
            {action}
          </Link>
        )}
      </div>
    </div>
  )
}

const figuresOf = (day: Daily | undefined) =>
  day && `${dateName(day.date)}: ${written(day.sent)} sent, ${written(day.failed)} failed`

/** A bar. That of failed messages is hollow, so that colour is not the only sign. */
export function Bar({ isFailed, ...place }: SVGProps<SVGRectElement> & { isFailed?: true }) {
  if (place.height === 0) return null
  const style = isFailed
    ? 'fill-none stroke-bad forced-colors:stroke-[CanvasText]'
    : 'fill-accent forced-colors:fill-[CanvasText]'
  return <rect {...place} rx={2} className={style} />
}
