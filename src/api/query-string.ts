/**
 * A query such as `?days=14&zone=UTC`, without the parameters that are undefined. Days begin in this browser's time
 * zone.
 */
export function queryString(parameters: object): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, String(value))
  }
  const zone = knownZone()
  if (zone !== undefined && (query.has('day') || query.has('days'))) query.set('zone', zone)
  return query.size === 0 ? '' : `?${query}`
}

/** Undefined if it is unknown: Chromium on Linux then says `Etc/Unknown`, which no `Intl` takes. */
function knownZone(): string | undefined {
  try {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
    Intl.DateTimeFormat('en', { timeZone })
    return timeZone
  } catch {
    return undefined
  }
}
