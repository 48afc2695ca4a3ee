import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { launch } from '../server/program.ts'

const main = join(import.meta.dirname, '../../server/main.ts')

/** The real server as a process of its own, behind nginx. It serves the stand-ins. */
interface Server {
  /**
   * The memory that the process uses after a collection of its garbage. V8 collects late, and the later the busier the
   * machine is, so memory with garbage says nothing about the server.
   */
  memoryMb(): Promise<number>
  /** How many lines its log has. */
  lines(): number
  /** Sends SIGTERM, and SIGKILL if the process still runs after `limitMs`. */
  stop(limitMs: number): Promise<Stop>
}

interface Stop {
  durationMs: number
  /** Null if the process was killed or crashed. */
  exitCode: number | null
}

interface Place {
  /** Holds the key, and the database unless there is a `databaseUrl`. */
  folder: string
  databaseUrl: string | undefined
  port: number
  /** Where nginx answers. */
  url: string
}

export async function startServer(
  { folder, databaseUrl, port, url }: Place,
  settings: Record<string, string>,
): Promise<Server> {
  const program = launch(
    [main],
    {
      PORT: String(port),
      APP_URL: url,
      TRUSTED_PROXIES: '1',
      SERVE_DASHBOARD: 'false',
      DATA_DIR: folder,
      NODE_OPTIONS: '--inspect=127.0.0.1:0',
      ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
      ...settings,
    },
    // A developer's .env is not in this folder, so no setting of it applies.
    { cwd: folder },
  )
  const { child, exited } = program
  await program.listens()

  return {
    async memoryMb() {
      if (child.exitCode !== null || child.signalCode !== null) {
        throw new Error(`The server ended by itself:\n${program.output.slice(-4_000)}`)
      }
      return await usedMemoryMb(await program.said(/ws:\S+/))
    },
    lines: () => program.output.split('\n').length,
    // Also works when the process has ended already.
    async stop(limitMs) {
      const stoppedAt = performance.now()
      child.kill('SIGTERM')
      const ended = await Promise.race([exited, delay(limitMs, undefined, { ref: false })])
      if (ended === undefined) await program.kill()
      return { durationMs: performance.now() - stoppedAt, exitCode: child.exitCode }
    },
  }
}

/** Collects the garbage of a process and reads what is left, by the Chrome DevTools Protocol. */
export async function usedMemoryMb(inspectorUrl: string): Promise<number> {
  const socket = new WebSocket(inspectorUrl)
  const answer = (id: number, method: string, params = {}) =>
    new Promise<{ result: { value?: number } }>((resolve, reject) => {
      socket.onerror = socket.onclose = () => reject(new Error('The server ended.'))
      socket.onmessage = ({ data }) => {
        const message = JSON.parse(data)
        if (message.id === id) resolve(message.result)
      }
      socket.send(JSON.stringify({ id, method, params }))
    })
  await once(socket, 'open')
  await answer(1, 'HeapProfiler.collectGarbage')
  // `external` includes the memory of PGlite.
  const expression = 'process.memoryUsage().heapUsed + process.memoryUsage().external'
  const { result } = await answer(2, 'Runtime.evaluate', { expression, returnByValue: true })
  socket.onclose = null
  socket.close()
  return (result.value ?? Number.NaN) / 1024 / 1024
}
