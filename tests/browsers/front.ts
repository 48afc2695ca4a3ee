import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { text } from 'node:stream/consumers'

/**
 * A reverse proxy between the browser and the server. It counts requests where they arrive, because
 * browsers show preloads differently. It passes on all headers, and adds an address for reports to
 * the policy: so each browser reports violations in the same way.
 */
export class Front {
  /** What arrived, such as `GET /health`, in order. */
  requests: string[] = []
  /** What the pages did against their policy, such as `style-src-attr on /contact`. */
  violations: string[] = []
  readonly url: string
  readonly close: () => void

  private constructor(url: string, close: () => void) {
    this.url = url
    this.close = close
  }

  /** @param serverPort is the port of the server behind it. */
  static async start(serverPort: number): Promise<Front> {
    const proxy = createServer().listen(0)
    await once(proxy, 'listening')
    const address = proxy.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const front = new Front(`http://localhost:${port}`, () => {
      proxy.close()
      proxy.closeAllConnections()
    })

    proxy.on('request', async (incoming, outgoing) => {
      const { method, url: path = '/', headers } = incoming
      const { pathname } = new URL(path, front.url)
      if (pathname === '/violations') {
        front.violations.push(await text(incoming))
        outgoing.writeHead(204).end()
        return
      }
      front.requests.push(`${method} ${pathname}`)
      const onward = request({ host: 'localhost', port: serverPort, method, path, headers })
      onward.on('response', (answer) => {
        const policy = answer.headers['content-security-policy']
        outgoing.writeHead(answer.statusCode ?? 502, {
          ...answer.headers,
          ...(policy && { 'content-security-policy': `${policy}; report-uri /violations` }),
        })
        answer.pipe(outgoing)
      })
      onward.on('error', () => outgoing.destroy())
      incoming.pipe(onward)
    })
    return front
  }

  /** Starts anew for the next test. */
  forget(): void {
    this.requests = []
    this.violations = []
  }

  /** How often each backend call of the dashboard arrived. */
  calls(): Record<string, number> {
    return countsOf(this.requests.filter((name) => / \/(health|api\/)/.test(name)))
  }

  /** How often each file of the page arrived. */
  files(): Record<string, number> {
    return countsOf(this.requests.filter((name) => / \/assets\//.test(name)))
  }
}

function countsOf(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
