import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { expect } from '@playwright/test'
import { Hono } from 'hono'
import { safetyHeaders } from '../../server/http/safety-headers.ts'
import { readBuiltPage } from '../../server/page/build.ts'
import { serveDashboard } from '../../server/page/serve.ts'

/** Starts a small site. */
export async function serve(listener: RequestListener) {
  const server = createServer(listener)
  server.listen(0)
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    port,
    url: `http://localhost:${port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Builds the page with these settings, and serves it as the server does. */
export async function serveBuild(settings: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), 'dealbell-build-'))
  const vite = ['node_modules/vite/bin/vite.js', 'build', '--configLoader', 'native']
  const build = spawnSync(process.execPath, [...vite, '--outDir', folder, '--emptyOutDir'], {
    env: { ...process.env, NODE_ENV: 'production', ...settings },
    encoding: 'utf8',
  })
  expect(build.status, build.stderr).toBe(0)
  const page = await readBuiltPage(folder)
  const app = new Hono()
    .use(safetyHeaders({ https: false }))
    .get('/health', (c) => c.json({ status: 'ok' }))
    .all('*', serveDashboard(page))
  const site = await serve(getRequestListener(app.fetch))
  return {
    ...site,
    close() {
      site.close()
      rmSync(folder, { recursive: true })
    },
  }
}
