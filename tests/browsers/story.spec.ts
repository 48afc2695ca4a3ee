import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from '@playwright/test'
import { test } from './fixtures.ts'
import type { Page } from './page.ts'

const dashboard = { role: 'heading', name: 'Deal notifications' }
const stageRule = { role: 'checkbox', name: 'Notify me when a deal stage changes' }
const save = { role: 'button', name: 'Save' }

/** Connects both services on the stand-ins' consent pages. */
async function connectBoth(person: Page) {
  await person.open('/')
  for (const name of ['HubSpot', 'Slack']) {
    await person.click({ role: 'button', name: `Connect ${name}` })
    await person.click({ role: 'button', name: 'Allow' })
    await person.see({ role: 'button', name: `Disconnect ${name}` })
  }
}

test('a person connects both services and saves a rule, and a deal makes a message', {
  tag: '@not-chromium',
}, async ({ person, front }) => {
  await person.open('/')
  await person.see({ text: 'Connections required' })
  await connectBoth(person)
  await person.miss({ text: 'Connections required' })
  await person.isAt('/')
  // After the navigation within the page, the focus is on the heading.
  await person.see(dashboard, { focused: true })

  await person.see({ text: 'No notification rules defined' })
  await person.click(stageRule)
  await person.see(stageRule, { checked: true })
  await person.miss({ text: 'No notification rules defined' })
  await person.click(save)
  await person.see({ text: '✅ Rules saved successfully!' })
  expect(front.calls()).toMatchObject({
    'GET /api/hubspot/callback': 1,
    'GET /api/slack/callback': 1,
    'POST /api/notifications/rules': 1,
  })
  await person.reload()
  await person.see(stageRule, { checked: true })

  // Globex pilot moves to 'Contract sent'.
  const body = `new URLSearchParams({ change: 'stage', stage: 'contractsent' })`
  await person.run(`fetch('/sandbox/hubspot/deals/9002', { method: 'POST', body: ${body} })`)
  await person.open('/activity')
  await person.see({ text: 'Sent to' })
})

test('no script reads the cookie, and neither another site nor another port changes anything with it', async ({
  person,
  front,
  tab,
}) => {
  await connectBoth(person)
  await person.click(stageRule)
  await person.click(save)
  await person.see({ text: '✅ Rules saved successfully!' })
  expect(await person.run('document.cookie')).toBe('')
  const attacks = `return (async () => {
    const targets = ['/api/slack/auth', '/api/hubspot/disconnect', '/api/session', '/api/notifications/rules']
    const calls = targets.flatMap((path) => ['GET', 'POST', 'DELETE'].flatMap((method) =>
      ['cors', 'no-cors'].map(async (mode) =>
        fetch('${front.url}' + path, { method, mode, credentials: 'include', body: method === 'POST' ? '{"rules":[]}' : undefined }))))
    await Promise.allSettled(calls)
    const frame = Object.assign(document.createElement('iframe'), { name: 'hidden' })
    document.body.append(frame)
    const form = Object.assign(document.createElement('form'), {
      action: '${front.url}/api/slack/auth', target: 'hidden',
    })
    document.body.append(form)
    form.submit()
    return await new Promise((resolve) => frame.addEventListener('load', () => resolve('attacked')))
  })()`
  const elsewhere = createServer((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><body>Elsewhere')
  }).listen(0)
  try {
    await once(elsewhere, 'listening')
    const { port } = elsewhere.address() as AddressInfo
    // For a browser, 127.0.0.1 is another site than localhost. Another port is the same site, so it gets the cookie.
    for (const host of ['127.0.0.1', 'localhost']) {
      front.requests = []
      await tab.open(`http://${host}:${port}/`)
      expect(await tab.run(attacks)).toBe('attacked')
      expect(front.requests).toContain('GET /api/slack/auth')
      // The policy forbids to show the answer in a frame of another origin.
      await expect.poll(() => front.violations.join()).toContain('frame-ancestors')
      front.violations = []
    }
  } finally {
    elsewhere.close()
    elsewhere.closeAllConnections()
  }
  await person.open('/')
  for (const name of ['HubSpot', 'Slack']) {
    await person.see({ role: 'button', name: `Disconnect ${name}` })
  }
  await person.see(stageRule, { checked: true })

  // The menu of the account, which the browser itself opens and closes.
  const signOut = { role: 'button', name: 'Sign out of this browser' }
  await person.miss(signOut)
  await person.click({ role: 'button', name: 'acme-stand-in.example' })
  await person.see(signOut, { reachable: true })
  await person.click(dashboard)
  await person.miss(signOut)
})
