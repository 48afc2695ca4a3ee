/** Writes one line about an event. Fields hold ids and codes, never tokens, secrets or texts of users. */
export type Log = (event: string, fields?: Readonly<Record<string, unknown>>) => void

/** JSON lines on standard error, so that standard output stays for the person who started the server. */
export const logToStderr: Log = (event, fields) => {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), event, ...fields })}\n`)
}
