import { once } from 'node:events'
import { createServer } from 'node:net'

/** A free port, for a program that needs its port before it starts. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0)
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}
