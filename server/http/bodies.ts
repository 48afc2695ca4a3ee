type Body =
  | { kind: 'read'; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'too large' }
  /** Newer bodies took its place, because it did not arrive in time. */
  | { kind: 'displaced' }
  /** The client went away. */
  | { kind: 'incomplete' }

/**
 * Reads bodies, at most `most` at a time, so that unfinished ones cannot fill the memory. A new body
 * takes the place of the oldest unfinished one: an honest client sends its body within a second.
 */
export function createBodyReader({ maxBytes, most }: { maxBytes: number; most: number }) {
  /** What gives up a body, the oldest first. */
  const reading = new Set<() => void>()

  return async function readBody(request: Request): Promise<Body> {
    if (Number(request.headers.get('Content-Length')) > maxBytes) return { kind: 'too large' }
    if (request.body === null) return { kind: 'read', bytes: new Uint8Array() }
    const reader = request.body.getReader()
    let displaced = false
    const giveUp = () => {
      displaced = true
      reading.delete(giveUp)
      // Ends the read below.
      reader.cancel().catch(() => undefined)
    }
    const [oldest] = reading
    if (oldest !== undefined && reading.size >= most) oldest()
    reading.add(giveUp)

    const chunks: Uint8Array[] = []
    let size = 0
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (displaced) return { kind: 'displaced' }
        if (done) return { kind: 'read', bytes: new Uint8Array(Buffer.concat(chunks)) }
        size += value.length
        if (size > maxBytes) return { kind: 'too large' }
        chunks.push(value)
      }
    } catch {
      return { kind: 'incomplete' }
    } finally {
      reading.delete(giveUp)
    }
  }
}
