import type { ActivityItem } from '../../contract/features/activity.ts'
import { serverTime } from '../api/server-time.ts'
import { dayName } from '../ui/dates.ts'
import { ActivityRow } from './ActivityRow.tsx'

/** Messages, with a card for each day. */
export function ActivityDays({ items }: { items: readonly ActivityItem[] }) {
  const today = serverTime()
  const days = new Map<string, ActivityItem[]>()
  for (const item of items) {
    const day = dayName(item.at, today)
    days.set(day, [...(days.get(day) ?? []), item])
  }
  return [...days].map(([day, ofDay]) => (
    <section key={day} aria-label={day} className="card gap-0 px-4 pt-3 pb-1 sm:px-6">
      <h3 className="text-sm font-semibold text-muted">{day}</h3>
      <ol className="divide-y divide-line">
        {ofDay.map((item) => (
          <ActivityRow key={item.id} item={item} />
        ))}
      </ol>
    </section>
  ))
}
