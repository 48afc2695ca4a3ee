type Body =
  | { kind: 'read'; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'too large' }
  /** Newer bodies took its place, because it did not arrive in time. */
  | { kind: 'displaced' }
  /** The client went away. */
  | { kind: 'incomplete' }

/**
 * Reads bodies: at most `most` at a time, and at most `mostBytes` of them in memory, so that unfinished
 * ones cannot fill it. A new body takes the place of the oldest unfinished one, because an honest client
 * sends its body within a second.
 */
export function createBodyReader({
  maxBytes,
  most,
  mostBytes,
}: {
  maxBytes: number
  most: number
  mostBytes: number
}) {
  interface Reading {
    size: number
    giveUp: () => void
  }
  /** The oldest first. */
  const readings = new Set<Reading>()
  let bytes = 0

  function makeRoom(): void {
    for (const oldest of readings) {
      if (readings.size <= most && bytes <= mostBytes) return
      oldest.giveUp()
    }
  }

  function remove(reading: Reading): void {
    if (readings.delete(reading)) bytes -= reading.size
  }

  return async function readBody(request: Request): Promise<Body> {
    if (Number(request.headers.get('Content-Length')) > maxBytes) return { kind: 'too large' }
    if (request.body === null) return { kind: 'read', bytes: new Uint8Array() }
    const reader = request.body.getReader()
    let displaced = false
    const reading: Reading = {
      size: 0,
      giveUp() {
        displaced = true
        remove(reading)
        // Ends the read below.
        reader.cancel().catch(() => undefined)
      },
    }
    readings.add(reading)
    makeRoom()

    const chunks: Uint8Array[] = []
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (displaced) return { kind: 'displaced' }
        if (done) return { kind: 'read', bytes: new Uint8Array(Buffer.concat(chunks)) }
        chunks.push(value)
        reading.size += value.length
        bytes += value.length
        if (reading.size > maxBytes) return { kind: 'too large' }
        makeRoom()
      }
    } catch {
      return { kind: 'incomplete' }
    } finally {
      remove(reading)
    }
  }
}
