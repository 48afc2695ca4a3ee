import type { RequestListener } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { expect, type Page } from '@playwright/test'
import { Hono, type MiddlewareHandler } from 'hono'
import { createExample, type User } from '../../examples/backend.ts'
import { readBuiltPage } from '../../server/page/build.ts'
import { serveDashboard } from '../../server/page/serve.ts'
import { listen } from '../relay/listen.ts'
import { button, rule, sharedTest as test } from './server.ts'

// What stands between the page and a backend of §7: the browser's cache.

/** Serves the page and the example backend at one address. @param before what stands in front of both. */
async function serve(before: MiddlewareHandler = (_c, next) => next()) {
  const users = new Map<string, User>()
  let answer: RequestListener = () => {}
  const host = await listen((request, response) => answer(request, response))
  const url = host.url.replace('127.0.0.1', 'localhost')
  const dashboard = await readBuiltPage()
  const backend = createExample(url, users)
  const app = new Hono()
    .use(before)
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

test('a sign-in in front of the page that has ended is named, and the page has its ticks again after it', async ({
  page,
  violations,
}) => {
  const elsewhere = await listen((_request, response) => response.end('<!doctype html>Sign in'))
  let isSignedIn = true
  const { url, close, user } = await serve((c, next) =>
    isSignedIn ? next() : Promise.resolve(c.redirect(`${elsewhere.url}/sign-in`)),
  )
  await connectBoth(page, url)
  const closed = rule(page, 'a deal is signed or closed')
  await closed.check()
  isSignedIn = false
  await button(page, 'Save').click()
  await expect(page.getByText('Failed to save rules, try again.')).toBeVisible()
  await expect(
    page.getByText('The sign-in in front of this page has probably ended'),
  ).toBeInViewport()
  // The user signs in, and comes back to the page.
  await page.getByRole('button', { name: 'Load again' }).click()
  await expect(page.getByText('Sign in')).toBeVisible()
  isSignedIn = true
  await page.goto(url)
  await expect(page.getByText('Unsaved changes')).toBeVisible()
  await button(page, 'Save').click()
  await expect(page.getByText('Rules saved successfully')).toBeVisible()
  expect(user()?.rules).toEqual(['deal-closed'])
  for (const end of [close, elsewhere.close]) await end()
  // The page may not read what stands there.
  expect(violations.splice(0).join()).toContain('connect-src')
})

test('a backend that redirects within itself is a backend', async ({ page }) => {
  const { url, close, user } = await serve((c, next) =>
    c.req.path.startsWith('/api/') &&
    !c.req.path.endsWith('/auth') &&
    c.req.query('again') === undefined
      ? Promise.resolve(
          c.redirect(`${c.req.url}${c.req.url.includes('?') ? '&' : '?'}again=1`, 307),
        )
      : next(),
  )
  await connectBoth(page, url)
  await rule(page, 'a deal is signed or closed').check()
  await button(page, 'Save').click()
  await expect(page.getByText('Rules saved successfully')).toBeVisible()
  expect(user()?.rules).toEqual(['deal-closed'])
  await close()
})

test('a contact form that leads to another site is not framed, and its link remains', async ({
  page,
  violations,
}) => {
  const { url, close } = await serve((c, next) =>
    c.req.path === '/sandbox/contact-form'
      ? Promise.resolve(c.redirect('https://forms.example/f/1'))
      : next(),
  )
  await page.goto(`${url}/contact`)
  await expect(page.getByText('The form is on another site')).toBeVisible()
  await expect(page.locator('iframe')).toHaveCount(0)
  await expect(page.getByRole('link', { name: 'open the contact form' })).toBeVisible()
  expect(violations.splice(0).join()).toContain('frame-src')
  await close()
})
