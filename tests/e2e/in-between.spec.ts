import type { RequestListener } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { expect, type Page } from '@playwright/test'
import { Hono } from 'hono'
import { createExample, type User } from '../../examples/backend.ts'
import { readBuiltPage } from '../../server/page/build.ts'
import { serveDashboard } from '../../server/page/serve.ts'
import { listen } from '../relay/listen.ts'
import { button, rule, sharedTest as test } from './server.ts'

// What stands between the page and a backend of §7: the browser's cache.

/** Serves the page and the example backend at one address. */
async function serve() {
  const users = new Map<string, User>()
  let answer: RequestListener = () => {}
  const host = await listen((request, response) => answer(request, response))
  const url = host.url.replace('127.0.0.1', 'localhost')
  const dashboard = await readBuiltPage()
  const backend = createExample(url, users)
  const app = new Hono()
    .use('/api/*', async (c, next) => {
      await next()
      // A backend may allow to keep its answers.
      c.res.headers.set('Cache-Control', 'max-age=600')
    })
    .on(['GET', 'POST', 'DELETE'], ['/health', '/api/*'], (c) => backend.fetch(c.req.raw))
    .all('*', serveDashboard(dashboard))
  answer = getRequestListener(app.fetch)
  return { url, close: host.close, user: () => [...users.values()].at(-1) }
}

async function connectBoth(page: Page, url: string): Promise<void> {
  await page.goto(url)
  for (const name of ['HubSpot', 'Slack']) {
    await button(page, `Connect ${name}`).click()
    await expect(button(page, `Disconnect ${name}`)).toBeVisible()
  }
}

test('a page that the browser opens again shows what the backend says now, and not what the browser has kept', async ({
  page,
}) => {
  const { url, close, user } = await serve()
  await connectBoth(page, url)
  const closed = rule(page, 'a deal is signed or closed')
  await closed.check()
  await button(page, 'Save').click()
  await expect(page.getByText('Rules saved successfully')).toBeVisible()
  await page.reload()
  await expect(closed).toBeChecked()
  // Another device.
  const current = user()
  if (current !== undefined) current.rules = ['deal-stage-changed']
  await page.goto('about:blank')
  await page.goBack()
  await expect(rule(page, 'a deal stage changes')).toBeChecked()
  await expect(closed).not.toBeChecked()
  // What is saved now is not what the browser has kept.
  await rule(page, 'a deal moves stage without').check()
  await button(page, 'Save').click()
  await expect(page.getByText('Rules saved successfully')).toBeVisible()
  expect(user()?.rules.toSorted()).toEqual(['deal-stage-changed', 'deal-stage-changed-orphan'])
  await close()
})
