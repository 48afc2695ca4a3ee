import { serverTime } from '../api/server-time.ts'
import { config, type Provider } from '../config.ts'
import { clockTime, dateInWords, dayName, isTime } from '../ui/dates.ts'

/** Why a connection no longer works, since when, and what to do. */
export function BrokenConnection({
  provider,
  reason,
  since,
}: {
  provider: Provider
  reason: string
  since: string | undefined
}) {
  const rest = `: ${reason} Connect again${provider.id === config.chat.id ? ', or choose another channel' : ''}.`
  if (!isTime(since)) {
    return <span>{`Not connected${rest}`}</span>
  }
  return (
    <>
      <span>{'Not connected since '}</span>
      <time dateTime={since}>{startInWords(since)}</time>
      <span>{rest}</span>
    </>
  )
}

/** 'today, 11:11 AM' or 'November 20, 2026, 11:11 AM', in the reader's time zone. */
function startInWords(since: string): string {
  const isToday = dayName(since, serverTime()) === 'Today'
  return `${isToday ? 'today' : dateInWords(since)}, ${clockTime(since)}`
}
