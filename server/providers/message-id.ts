import { createHash } from 'node:crypto'

/** Makes a UUID of version 5 (RFC 9562 §5.5), always the same one for the same values. */
export function uuidOf(...values: unknown[]): string {
  const bytes = createHash('sha1')
    .update(JSON.stringify(['dealbell', ...values]))
    .digest()
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return [0, 8, 12, 16, 20].map((start, n, all) => hex.slice(start, all[n + 1] ?? 32)).join('-')
}
