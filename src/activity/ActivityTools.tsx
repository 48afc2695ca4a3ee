import { Link, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import {
  type ActivityCounts,
  type ActivityState,
  activityStates,
} from '../../contract/features/activity.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import type { ActivityFilter } from '../api/activity.ts'
import { dateName, written } from '../ui/words.ts'
import { longest } from './activity-filter.ts'
import { ruleInWords } from './activity-words.ts'

const states = [undefined, ...activityStates]
const stateNames = { sent: 'Sent', waiting: 'Waiting', failed: 'Failed', skipped: 'Skipped' }

/** The filter by state, with the number of messages in each if the backend says so, and the chosen day. */
export function StateFilter({
  filter: { counts: isCounted, day },
  counts,
}: {
  filter: ActivityFilter
  counts: ActivityCounts | undefined
}) {
  return (
    <nav aria-label="Messages by state">
      {/* The numbers that come later must not begin a new line on a phone, nor move the next links elsewhere. */}
      <ul
        className={
          isCounted ? 'grid grid-cols-3 gap-1 sm:flex sm:flex-wrap' : 'flex flex-wrap gap-1'
        }
      >
        {states.map((state) => (
          <li key={state ?? 'all'} className={isCounted && state ? 'sm:min-w-32' : ''}>
            <Link
              from="/activity"
              to="/activity"
              search={(former) => ({ ...former, state })}
              activeOptions={{ exact: true, includeSearch: true }}
              resetScroll={false}
              className="activity-filter"
            >
              <span>{state === undefined ? 'All' : stateNames[state]}</span>
              <Count of={state} counts={counts} isComing={Boolean(isCounted)} />
            </Link>
          </li>
        ))}
        {day !== undefined && (
          <li className="col-span-3">
            <Link
              from="/activity"
              to="/activity"
              search={(former) => ({ ...former, day: undefined })}
              resetScroll={false}
              onClick={({ currentTarget }) => {
                // This link disappears.
                currentTarget.closest('section')?.querySelector('h2')?.focus()
              }}
              aria-label={`Show all days, not only ${dateName(day)}`}
              className="activity-filter border-edge bg-surface text-ink"
            >
              <span>{dateName(day)}</span>
              <span aria-hidden="true" className="pl-2 text-muted">
                ✕
              </span>
            </Link>
          </li>
        )}
      </ul>
    </nav>
  )
}

function Count({
  of: state,
  counts,
  isComing,
}: {
  of: ActivityState | undefined
  counts: ActivityCounts | undefined
  isComing: boolean
}): ReactNode {
  if (state === undefined) return null
  const { count, more } = counts?.[state] ?? { count: 0, more: true }
  // On a narrow phone, the number stands below the word. Its room is there before it, so that the word does not move.
  if (count === 0 && more) {
    return isComing && <span className="pl-1.5 before:invisible before:content-['0']" />
  }
  return <span className="pl-1.5 tabular-nums">{` ${written(count)}${more ? '+' : ''}`}</span>
}

/** How long typing must rest before the list loads, in milliseconds. */
const typingMs = 300

/** The search by a deal's name, and the filter by rule. */
export function SearchAndRule({ filter: { q = '', rule } }: { filter: ActivityFilter }) {
  const navigate = useNavigate({ from: '/activity' })
  const [text, setText] = useState(q)
  // Back, or a link to the whole list, changes the text. The address that follows the typing does not.
  const [sent, setSent] = useState<string>()
  const [former, setFormer] = useState(q)
  if (former !== q) {
    setFormer(q)
    if (q !== sent) setText(q)
    setSent(undefined)
  }
  useEffect(() => {
    if (text.trim() === q) return
    const timer = setTimeout(() => {
      setSent(text.trim())
      void navigate({
        search: (other) => ({ ...other, q: text.trim() || undefined }),
        // Back does not lead through each letter.
        replace: true,
        resetScroll: false,
      })
    }, typingMs)
    return () => clearTimeout(timer)
  }, [text, q, navigate])

  const rules = new Set([...availableRuleIds, ...(rule === undefined ? [] : [rule])])
  return (
    <div className="flex min-w-0 gap-2 max-lg:w-full lg:ml-auto">
      <input
        type="search"
        aria-label="Search by deal name"
        placeholder="Search deals"
        maxLength={longest}
        value={text}
        onChange={(event) => setText(event.target.value)}
        className="activity-field max-sm:flex-1 sm:w-60"
      />
      <select
        aria-label="Rule"
        value={rule ?? ''}
        onChange={({ target: { value } }) => {
          void navigate({
            search: (other) => ({ ...other, rule: value || undefined }),
            resetScroll: false,
          })
        }}
        className="activity-field max-sm:flex-1 sm:w-60 lg:w-80"
      >
        <option value="">All rules</option>
        {[...rules].map((id) => (
          <option key={id} value={id}>
            {ruleInWords(id)}
          </option>
        ))}
      </select>
    </div>
  )
}

/** How old the list is. `at` is in milliseconds since 1970; 0 if it has not loaded. */
export function Updated({ at }: { at: number }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  const seconds = Math.max(0, Math.round((now - at) / 1000))
  if (at === 0) return null
  return (
    <p className="text-sm text-muted tabular-nums">
      {seconds < 60 ? `Updated ${seconds} s ago` : `Updated ${Math.floor(seconds / 60)} min ago`}
    </p>
  )
}
