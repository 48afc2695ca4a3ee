import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'

/** Answers at an address of this machine. */
export async function listen(answer: RequestListener) {
  const server = createServer(answer)
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port was given.')
  return {
    url: `http://127.0.0.1:${address.port}`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
