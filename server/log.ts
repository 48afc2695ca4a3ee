/** Writes one line about an event. Fields hold ids and codes, never tokens, secrets or users' texts. */
export type Log = (
  event: string,
  // Each line already has these two. A field of the same name would overwrite it.
  fields?: Readonly<Record<string, unknown> & { time?: never; event?: never }>,
) => void

/** Writes JSON lines to standard error. Standard output is for the person who starts the server. */
export const logToStderr: Log = (event, fields) => {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), event, ...fields })}\n`)
}

/** What may be logged of an error: its name and our own lines. Its message may quote data of users. */
export function errorFields(error: unknown): { error: string; at: string[] } {
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  return {
    error: error instanceof Error ? error.name : typeof error,
    at: stack
      .split('\n')
      .filter((line) => line.startsWith('    at '))
      .slice(0, 8),
  }
}
