import { readFile } from 'node:fs/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { newDataFolder } from '../database.ts'
import { launch } from './program.ts'

// A process takes a second to start, and many more on a busy machine.
vi.setConfig({ testTimeout: 120_000 })

test.skipIf(process.platform !== 'linux')(
  'with --liftoff-only, a start on an existing folder takes at most 375 MB until it is ready',
  async () => {
    const env = { PORT: '0', SERVE_DASHBOARD: 'false', DATA_DIR: await newDataFolder() }
    const start = () => {
      const server = launch(['--liftoff-only', 'server/main.ts'], env)
      onTestFinished(() => server.kill())
      return server
    }
    const first = start()
    await first.listens()
    first.child.kill('SIGTERM')
    expect(await first.exited).toBe(0)

    const second = start()
    const url = await second.listens()
    await vi.waitFor(async () => expect((await fetch(`${url}/ready`)).status).toBe(200), 20_000)
    const status = await readFile(`/proc/${second.child.pid}/status`, 'utf8')
    expect(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024).toBeLessThan(375)
  },
)
