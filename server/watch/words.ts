// What the database says, in words, for `npm run relay -- status`. GET /metrics has the same and more.

import { mostCounted, type StoredFigures } from './stored.ts'

export function storedInWords(figures: StoredFigures | undefined): string[] {
  if (figures === undefined) return ['The database does not answer.']
  const { pending, oldestPendingS, connections, oldestSearchS } = figures
  const count = pending < mostCounted ? `${pending}` : `${mostCounted} or more`
  const broken = connections.filter((each) => each.broken)
  const which = broken.map((each) => `${each.count} × ${each.provider}`).join(', ')
  return [
    pending === 0
      ? 'no message waits'
      : `${count} wait, the oldest for ${duration(oldestPendingS)}`,
    `connections: ${total(connections)}, of which ${total(broken)} are broken${which && `: ${which}`}`,
    oldestSearchS === 0
      ? 'missed changes: no account is searched'
      : `missed changes: each account was searched within the last ${duration(oldestSearchS)}`,
  ]
}

const total = (counts: ReadonlyArray<{ count: number }>) =>
  counts.reduce((sum, { count }) => sum + count, 0)

function duration(seconds: number): string {
  if (seconds < 120) return `${Math.ceil(seconds)} s`
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`
}
