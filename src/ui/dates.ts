import { count } from './words.ts'

// The page is in English, so times and names of days are too.
const clock = new Intl.DateTimeFormat('en', { timeStyle: 'short' })
const longDate = new Intl.DateTimeFormat('en', { dateStyle: 'long' })
const longDay = new Intl.DateTimeFormat('en', { weekday: 'long', day: 'numeric', month: 'long' })

/** Whether a browser can read this time. */
export const isTime = (text: string | undefined): text is string =>
  Number.isFinite(Date.parse(text ?? ''))

const dayOf = (date: Date) => new Date(date.getFullYear(), date.getMonth(), date.getDate())

/** The time of day. */
export const clockTime = (at: string): string =>
  isTime(at) ? clock.format(new Date(at)) : 'unknown time'

/** 'November 20, 2026', in the user's time zone. */
export const dateInWords = (at: string): string => longDate.format(new Date(at))

/** 'Today', 'Yesterday' or 'Thursday, November 19', in the user's time zone. `today` is in milliseconds since 1970. */
export function dayName(at: string, today: number): string {
  if (!isTime(at)) return 'Unknown day'
  const [date, now] = [new Date(at), new Date(today)]
  // In some time zones, the change to summer time makes a day shorter or longer.
  const daysAgo = Math.round((dayOf(now).getTime() - dayOf(date).getTime()) / 86_400_000)
  if (daysAgo === 0) return 'Today'
  if (daysAgo === 1) return 'Yesterday'
  const year = date.getFullYear() === now.getFullYear() ? '' : ` ${date.getFullYear()}`
  return longDay.format(date) + year
}

/** 'at 12:05', with the day if it is another one: 'on Monday, November 23 at 12:05'. */
export function timeInWords(at: string, today: number): string {
  const [day, time] = [dayName(at, today), clockTime(at)]
  return day === 'Today' ? `at ${time}` : `on ${day} at ${time}`
}

// `new Date('2026-11-21')` is midnight in UTC. In another time zone, it may be the day before.
const dateFormat = new Intl.DateTimeFormat('en', {
  day: 'numeric',
  month: 'short',
  timeZone: 'UTC',
})

/** The name of a date such as `2026-11-21`: 'Nov 21'. */
export const dateName = (date: string): string =>
  isTime(date) ? dateFormat.format(new Date(date)) : date

/** How long before `now` a time was: '2 hours ago'. `now` is in milliseconds since 1970. */
export function timeAgo(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000
  const units = [
    ['day', 86_400],
    ['hour', 3600],
    ['minute', 60],
  ] as const
  const unit = units.find(([, length]) => seconds >= length)
  return unit ? `${count(Math.floor(seconds / unit[1]), unit[0])} ago` : 'a moment ago'
}
