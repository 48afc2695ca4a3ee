import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { expect } from '@playwright/test'
import { Hono } from 'hono'
import { safetyHeaders } from '../../server/http/safety-headers.ts'
import { readBuiltPage } from '../../server/page/build.ts'
import { serveDashboard } from '../../server/page/serve.ts'
import { listen } from '../relay/listen.ts'
import { freePort } from '../relay/postgres.ts'
import { button, connect, openTab, saveRules, sharedTest as test, withServer } from './server.ts'

/** The page on a host of its own, as on Netlify. There, nothing answers for the backend. */
async function serveBuild(backendUrl: string) {
  const folder = await mkdtemp(join(tmpdir(), 'dealbell-build-'))
  const vite = ['node_modules/vite/bin/vite.js', 'build', '--configLoader', 'native']
  const build = spawnSync(process.execPath, [...vite, '--outDir', folder], {
    env: { ...process.env, NODE_ENV: 'production', VITE_API_URL: backendUrl },
    encoding: 'utf8',
  })
  expect(build.status, build.stderr).toBe(0)
  const page = await readBuiltPage(folder)
  const app = new Hono().use(safetyHeaders(undefined)).all('*', serveDashboard(page))
  const host = await listen(getRequestListener(app.fetch))
  async function close() {
    await host.close()
    await rm(folder, { recursive: true })
  }
  return { port: new URL(host.url).port, close }
}

test('a page on another origin reaches all pages that only the backend has', {
  tag: '@all',
}, async ({ page }) => {
  // It builds a page.
  test.setTimeout(120_000)
  const backendPort = await freePort()
  const backendUrl = `http://localhost:${backendPort}`
  const { port, close } = await serveBuild(backendUrl)
  const hostUrl = `http://localhost:${port}`
  const settings = {
    PORT: String(backendPort),
    APP_URL: hostUrl,
    API_URL: backendUrl,
    SERVE_DASHBOARD: 'false',
  }
  await withServer(async () => {
    // Another address of the same host.
    await page.goto(`http://127.0.0.1:${port}`)
    await page.getByRole('link', { name: hostUrl }).click()
    await expect(page).toHaveURL(`${hostUrl}/`)
    await expect(page.getByText('do not work at this address')).toBeHidden()
    await connect(page, 'HubSpot', 'Slack')
    await saveRules(page, 'a deal is signed or closed')

    const deals = await openTab(page, 'Open the HubSpot deals')
    await deals.getByLabel('Stage of Acme renewal').selectOption('Closed won')
    await button(deals, 'Move Acme renewal').click()
    await deals.getByRole('link', { name: 'Look at the chat' }).click()
    await deals.getByRole('link', { name: 'Acme renewal' }).click()
    await expect(deals).toHaveURL(`${backendUrl}/sandbox/hubspot/deals#deal-9001`)
    await deals.getByRole('link', { name: 'Dealbell' }).click()
    await expect(deals).toHaveURL(`${hostUrl}/`)

    await page.goto(`${hostUrl}/contact`)
    const form = page.frameLocator('iframe')
    for (const name of ['Your name', 'E-mail address', 'How can we help?'])
      await form.getByLabel(name).fill('sam@example.com')
    await form.getByRole('button', { name: 'Send' }).click()
    await expect(form.getByRole('heading', { name: 'Thank you' })).toBeVisible()
  }, settings)
  await close()
})
