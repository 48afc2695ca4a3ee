import { act, cleanup, fireEvent, screen } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { settle } from '../clock.ts'
import { hostileStrings } from '../hostile-strings.ts'
import { server } from '../msw/server.ts'
import { lookAgain, renderApp, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

/**
 * Brings the string to the page in every way that an attacker or a broken backend has. Returns the
 * HTML and the log after each step, and the requests.
 */
async function pagesWith(text: string) {
  cleanup()
  const { calls, requests } = startBackend()
  const body = { error: { code: text, message: text }, message: text, [text]: text }
  // The page shows the names of the account and the channel, as plain text.
  const name = `«${text}»`
  const status = { connected: true, account: name, channel: name, reason: text, since: text }
  server.use(
    http.get('*/api/hubspot/callback', () => HttpResponse.json(body, { status: 400 })),
    http.get('*/api/slack/callback', () => HttpResponse.html(text, { status: 500 })),
    http.get('*/api/:provider/status', () => HttpResponse.json(status)),
    http.get('*/rules', () => HttpResponse.json({ rules: [text, 'deal-closed'], [text]: text })),
    http.post('*/rules', () => HttpResponse.html(text, { status: 500 })),
    http.delete('*/disconnect', () => HttpResponse.json(body, { status: 409 })),
  )
  const value = encodeURIComponent(text)
  const { router, history } = renderApp(`/hubspot/callback?code=${value}&state=${value}`)

  const pages: Record<string, string> = {}
  async function read(name: string) {
    await settle()
    pages[name] = `${document.documentElement.outerHTML}\n${takeLog().join('\n')}`
  }
  await read('a code that the backend refuses with the text')
  expect(history.location.href).toBe('/hubspot/callback')
  for (const [name, address] of [
    ['a code on which the backend breaks', `/slack/callback?code=${value}&state=${value}`],
    // A provider's redirect always opens a new page.
    ['another screen', '/contact'],
    ['a refusal by the provider', `/slack/callback?error=${value}&code=${value}&${value}=1`],
    ['a provider that is the text', `/${value}/callback?code=${value}`],
    ['a service to connect that is the text', `/connect/${value}`],
    ['an address that is the text', `/${value}?${value}=${value}#${value}`],
    ['statuses and rules that hold the text', `/?code=${value}&${value}=${value}#${value}`],
  ] as const) {
    await act(() => router.navigate({ href: address }))
    await read(name)
  }
  fireEvent.click(screen.getByRole('button', { name: 'Save' }))
  await read('a save that fails with the text')
  fireEvent.click(screen.getByRole('button', { name: 'Disconnect Slack' }))
  await read('a disconnect that fails with the text')
  const broken = { connected: false, reason: name, since: text }
  server.use(http.get('*/api/:provider/status', () => HttpResponse.json(broken)))
  lookAgain()
  await read('connections that broke for the text')

  return { pages, calls, requests }
}

/** The page without React's generated ids, and with 'name' in place of the string where it may appear. */
function settled(page: string, text: string): string {
  const paragraph = document.createElement('p')
  paragraph.textContent = `«${text}»`
  return page.replaceAll(/_r_\w+_/g, 'id').replaceAll(paragraph.innerHTML, '«name»')
}

let known: Record<string, string> | undefined

/** The pages with a harmless string. Each test may be the first one. */
async function harmlessPages(): Promise<Record<string, string>> {
  known ??= Object.fromEntries(
    Object.entries((await pagesWith('harmless')).pages).map(([name, page]) => [
      name,
      settled(page, 'harmless'),
    ]),
  )
  return known
}

test('a harmless string appears nowhere but in names, so its pages are the reference', async () => {
  const harmless = await harmlessPages()
  expect(Object.values(harmless).join()).not.toContain('harmless')
  const said = Object.values(harmless).join()
  for (const words of [
    'HubSpot connection failed: The server answered with an error (400)',
    'Slack connection failed: Missing Slack code',
    'Something went wrong. Please try again later.',
    '<bdi>«name»</bdi></span><span> · </span><span><bdi>«name»</bdi></span>',
    'Not connected: «name»',
    '❌ Failed to save rules, try again.',
    'Disconnecting Slack failed: The server answered with an error (409)',
  ]) {
    expect(said).toContain(words)
  }
})

test.each(hostileStrings)('%j stays plain text, wherever it comes from', async (text) => {
  const harmless = await harmlessPages()
  const { pages, calls, requests } = await pagesWith(text)
  for (const [name, page] of Object.entries(pages)) {
    expect(settled(page, text), name).toBe(harmless[name])
  }

  // The backend received it unchanged.
  const sent = calls('GET /api/').filter((line) => line.includes('/callback'))
  expect(sent).toHaveLength(2)
  for (const line of sent) {
    const query = new URL(line.slice('GET '.length), 'http://localhost').searchParams
    expect([query.getAll('code'), query.getAll('state')]).toEqual([[text], [text]])
  }
  const saves = requests.filter(({ method }) => method === 'POST')
  expect(saves.map(({ body }) => JSON.parse(body))).toEqual([{ rules: [text, 'deal-closed'] }])
})
