import { serverTime } from '../api/server-time.ts'
import { config, type Provider } from '../config.ts'
import { clock } from '../ui/clock.ts'

const date = new Intl.DateTimeFormat('en', { dateStyle: 'long' })

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
      <time dateTime={since}>{startInWords(new Date(since))}</time>
      <span>{rest}</span>
    </>
  )
}

export const isTime = (text: string | undefined): text is string =>
  Number.isFinite(Date.parse(text ?? ''))

/** 'November 20, 2026', in the reader's time zone. */
export const dateInWords = (time: string): string => date.format(new Date(time))

/** 'today, 11:11 AM' or 'November 20, 2026, 11:11 AM', in the reader's time zone. */
function startInWords(time: Date): string {
  const isToday = time.toDateString() === new Date(serverTime()).toDateString()
  const day = isToday ? 'today' : date.format(time)
  return `${day}, ${clock.format(time)}`
}
