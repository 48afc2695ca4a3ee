import { Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import {
  type ActivityCounts,
  type ActivityState,
  activityStates,
} from '../../contract/features/activity.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { buttonStyle } from '../ui/button-style.ts'
import { dateName } from '../ui/dates.ts'
import { focusInPlace } from '../ui/focus.ts'
import { useFilter } from './activity-filter.ts'
import { ruleInWords } from './activity-words.ts'

const states = [undefined, ...activityStates]
const stateNames = { sent: 'Sent', waiting: 'Waiting', failed: 'Failed', skipped: 'Skipped' }

const segment =
  'flex min-h-9 items-center gap-x-1 px-3 text-sm font-semibold text-muted whitespace-nowrap hover:text-ink max-sm:min-h-12 max-sm:flex-col max-sm:justify-center max-sm:px-1 max-sm:text-xs max-[22.5rem]:text-[0.6875rem] pointer-coarse:min-h-12'
const chosen =
  'aria-[current=page]:bg-accent aria-[current=page]:text-on-accent aria-[current=page]:hover:text-on-accent'
// By default, a box in the colour of the page covers the text.
const forcedColours =
  'forced-colors:aria-[current=page]:forced-color-adjust-none forced-colors:aria-[current=page]:bg-[Highlight] forced-colors:aria-[current=page]:text-[HighlightText]'

/** The filter by state, with the number of messages in each if the backend says so, and the chosen day. */
export function StateFilter({ counts }: { counts: ActivityCounts | undefined }) {
  const { counts: isCounted, day } = useFilter()
  return (
    <nav aria-label="Messages by state" className="@container flex flex-wrap gap-2">
      {/* The numbers come later. The columns are even, so they move nothing. */}
      <ul className="grid w-full grid-cols-5 divide-x divide-line overflow-hidden rounded-lg border border-edge bg-surface @max-3xs:grid-cols-1 @max-3xs:divide-x-0 @max-3xs:divide-y">
        {states.map((state) => (
          <li key={state ?? 'all'}>
            <Link
              from="/activity"
              to="/activity"
              search={(former) => ({ ...former, state })}
              activeOptions={{ exact: true, includeSearch: true }}
              resetScroll={false}
              className={`${segment} ${chosen} ${forcedColours} focus-visible:-outline-offset-4`}
            >
              <span>{state === undefined ? 'All' : stateNames[state]}</span>
              {isCounted && state && (
                <span className="font-normal tabular-nums max-sm:min-h-4">
                  {numberOf(counts?.[state])}
                </span>
              )}
            </Link>
          </li>
        ))}
      </ul>
      {day !== undefined && (
        <Link
          from="/activity"
          to="/activity"
          search={(former) => ({ ...former, day: undefined })}
          resetScroll={false}
          onClick={({ currentTarget }) => {
            // This link disappears.
            focusInPlace(currentTarget.closest('section')?.querySelector('h2'))
          }}
          aria-label={`Show all days, not only ${dateName(day)}`}
          className={buttonStyle.secondary}
        >
          <span>{dateName(day)}</span>
          <span aria-hidden="true" className="text-muted">
            ✕
          </span>
        </Link>
      )}
    </nav>
  )
}

/** A number such as '1.2K', which has room on a phone. */
const short = new Intl.NumberFormat('en', { notation: 'compact' })

/** Says nothing if there may be some although none was counted. */
function numberOf(counted: ActivityCounts[ActivityState] | undefined): string {
  if (counted === undefined || (counted.count === 0 && counted.more)) return ''
  return ` ${short.format(counted.count)}${counted.more ? '+' : ''}`
}

/** How long typing must rest before the list loads, in milliseconds. */
const typingMs = 300

const field =
  'min-h-9 min-w-0 rounded-lg border border-edge bg-surface px-3 text-base sm:text-sm pointer-coarse:min-h-11'

/** The search by a deal's name, and the filter by rule. */
export function SearchAndRule() {
  const { q = '', rule } = useFilter()
  const navigate = useNavigate({ from: '/activity' })
  const [text, setText] = useState(q)
  // Back, or a link to the whole list, changes the text. The address that follows the typing does not.
  const asked = useRef(q)
  useEffect(() => {
    if (q !== asked.current) setText(q)
    asked.current = q
  }, [q])
  useEffect(() => {
    if (text.trim() === asked.current) return
    const timer = setTimeout(() => {
      asked.current = text.trim()
      void navigate({
        search: (other) => ({ ...other, q: text.trim() || undefined }),
        // Back does not lead through each letter.
        replace: true,
        resetScroll: false,
      })
    }, typingMs)
    return () => clearTimeout(timer)
  }, [text, navigate])

  const rules = new Set([...availableRuleIds, ...(rule === undefined ? [] : [rule])])
  return (
    <div className="flex min-w-0 gap-2 max-sm:w-full sm:ml-auto">
      <input
        type="search"
        dir="auto"
        aria-label="Search by deal name"
        placeholder="Search deals"
        // The longest text that a backend takes.
        maxLength={100}
        value={text}
        onChange={(event) => setText(event.target.value)}
        className={`${field} max-sm:flex-3 sm:w-52`}
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
        className={`${field} max-sm:flex-2 sm:w-64`}
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
