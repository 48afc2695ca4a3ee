import { act, fireEvent, screen, waitFor, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import type { Activity, ActivityItem, Summary } from '../../contract/features/activity.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { invisibleTexts } from '../hostile-strings.ts'
import { sentItem as item } from '../msw/activity.ts'
import { server } from '../msw/server.ts'
import { hearFromOtherTab, hold, openApp, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'

const path = '*/api/notifications/activity'

/** `count` messages, a minute apart, the newest first. */
const many = (count: number, more: Partial<ActivityItem> = {}) =>
  Array.from({ length: count }, (_, n) =>
    item(`${count - n}`, {
      at: new Date(Date.parse('2026-11-20T12:00:00Z') - n * 60_000).toISOString(),
      ...more,
    }),
  )

const withSearch = ['activity', 'activity-search']

function open(
  items: ActivityItem[],
  address = '/activity',
  features = ['activity', 'test-message'],
  summary: Partial<Summary> = {},
) {
  const app = openApp({ features, activity: { items, summary } }, address)
  const list = 'GET /api/notifications/activity'
  /** The queries of the calls for the list, since the last time. */
  let read = 0
  const listCalls = () => {
    const calls = app.calls(list).slice(read)
    read += calls.length
    return calls.map((call) => call.slice(list.length))
  }
  return { ...app, listCalls, items: app.state.activity.items }
}

/** Opens it with a clock that stands at an hour after the messages, and lets the first answers arrive. */
async function openStopped(...args: Parameters<typeof open>) {
  stopClock()
  vi.setSystemTime('2026-11-20T13:00:00Z')
  const app = open(...args)
  await settle()
  return app
}

const rowNow = (name: string) => screen.getByText(name).closest('li') as HTMLElement
const row = async (name: string) => {
  await screen.findByText(name)
  return rowNow(name)
}
const texts = (elements: Iterable<Element>) => Array.from(elements, (each) => each.textContent)
// By text, because roles take seconds in a long list.
const names = () => texts(screen.getAllByText(/^Deal /, { selector: 'a bdi' }))

/** Presses a button of a page whose clock stands. */
async function press(text: string, selector = '*') {
  fireEvent.click(screen.getByText(text, { selector }))
  await settle()
}

/** Loads all messages of the backend, 25 at a time. */
async function loadAll() {
  while (screen.queryByText('Load older')) await press('Load older')
}

describe('the list', () => {
  test('says after two calls what changed, under which rule, when, and after how many tries', async () => {
    const { calls } = open([item('1', { tries: 3 })])
    const shown = within(await row('Deal 1'))
    expect(document.title).toBe('Activity · Dealbell')
    const [health, ...others] = calls()
    expect(health).toBe('GET /health')
    expect(others.toSorted()).toEqual([
      'GET /api/notifications/activity?limit=25',
      'GET /api/notifications/summary?days=14&zone=UTC',
    ])
    const link = shown.getByRole('link', { name: 'Deal 1' })
    expect(link).toHaveAttribute('href', 'https://app.hubspot.com/contacts/1/record/0-3/1')
    const { parentElement: change } = shown.getByText('Contract sent')
    expect(change).toHaveTextContent('Contract sent → Closed won')
    expect(shown.getByText(/When a deal is signed or closed \(won\/lost\)/)).toBeVisible()
    expect(shown.getByText(/tried 3 times/)).toBeVisible()
    const time = shown.getByText('12:00 PM')
    expect(time).toHaveAttribute('datetime', '2026-11-20T12:00:00.000Z')
  })

  test('groups the messages by day', async () => {
    const times = [
      '2026-11-20T00:00:00Z',
      '2026-11-19T23:59:59Z',
      '2026-11-19T00:00:00Z',
      '2026-11-18T10:00:00Z',
      '2025-12-31T10:00:00Z',
    ]
    await openStopped(times.map((at) => item(at, { at })))
    const days = screen.getAllByRole('region').slice(-4)
    expect(days.map((day) => within(day).getByRole('heading', { level: 3 }).textContent)).toEqual([
      'Today',
      'Yesterday',
      'Wednesday, November 18',
      'Wednesday, December 31 2025',
    ])
    expect(days.map((day) => within(day).getAllByRole('listitem').length)).toEqual([1, 2, 1, 1])
  })

  test('says of each message what became of it, why, and when it is tried next', async () => {
    const soon = '2026-11-20T13:05:00Z'
    const monday = '2026-11-23T12:05:00Z'
    const rows = [
      ['sent', null, null, 'Sent to #sales-floor'],
      ['waiting', null, null, 'Waiting to be sent'],
      ['waiting', 'Slack pauses', soon, 'Waiting: Slack pauses. Next try at 1:05 PM.'],
      ['waiting', null, monday, 'Waiting to be sent. Next try on Monday, November 23 at 12:05 PM.'],
      ['failed', 'it is gone. Connect again', null, 'Not sent: it is gone. Connect again.'],
      ['skipped', 'another rule reported it', null, 'Skipped: another rule reported it.'],
      ['skipped', null, null, 'Skipped'],
    ] as const
    await openStopped(
      rows.map(([state, reason, nextTryAt], n) => item(`${n}`, { state, reason, nextTryAt })),
    )
    for (const [n, [, , , sentence]] of rows.entries()) {
      expect(texts(within(rowNow(`Deal ${n}`)).getAllByRole('paragraph'))).toContain(sentence)
    }
  })

  test('a test message, a deal without a name, a rule of tomorrow, an unknown channel and texts that nobody sees have words too', async () => {
    const [none = ''] = invisibleTexts.slice(-1)
    const deal = { name: none, id: '9001', url: 'https://crm.example/4' }
    open([
      item('1', { deal: null, rule: null, from: null, to: null }),
      item('2', { deal: { name: null, url: 'https://crm.example/2' }, from: null }),
      item('3', { rule: 'rule-of-tomorrow', to: null, channel: null }),
      item('4', { deal, rule: none, from: none, to: none, channel: none, reason: none }),
    ])
    expect((await row('Deal 9001')).textContent).toMatch(/^Deal 9001\d+:\d\d .MSent$/)
    expect(await row('Test message')).not.toHaveTextContent(/→|When|Rule/)
    expect(await row('Deal (name unknown)')).toHaveTextContent('→ Closed won')
    expect(await row('Deal 3')).toHaveTextContent('Rule rule-of-tomorrow')
    expect(await row('Deal 3')).not.toHaveTextContent(/→|#sales-floor/)
    expect(within(await row('Deal 3')).getByText('Sent')).toBeVisible()
  })

  test('whatever a backend answers stays plain text, links lead only to the web, and a time that a browser cannot read is of an unknown day', async () => {
    const text = '"><img src=x onerror=pwned()><a href="javascript:pwned()">x</a>'
    const said = { rule: text, from: text, to: text, channel: text, reason: text }
    // Our schema accepts this time, but a browser does not.
    const at = '2026-01-01T10:00:00+05'
    const addresses = [text, 'javascript:pwned()', 'data:text/html,x', '//evil.example', '']
    open(addresses.map((url) => item(url, { ...said, at, deal: { name: text, url } })))
    // The name of each deal, its stages and its channel.
    expect(await screen.findAllByText(text)).toHaveLength(4 * addresses.length)
    expect(screen.getByRole('heading', { level: 3 })).toHaveTextContent('Unknown day')
    expect(screen.getByRole('region', { name: 'Messages' }).querySelector('img, ol a')).toBeNull()
  })
})

test('the filter is in the address, and Back works', async () => {
  const { user, history, listCalls } = open([item('1'), item('2', { state: 'failed' })])
  await row('Deal 2')
  const nav = within(screen.getByRole('navigation', { name: 'Messages by state' }))
  expect(texts(nav.getAllByRole('link'))).toEqual(['All', 'Sent', 'Waiting', 'Failed', 'Skipped'])
  await user.click(nav.getByRole('link', { name: 'Failed' }))
  await waitFor(() => expect(names()).toEqual(['Deal 2']))
  expect(history.location.href).toBe('/activity?state=failed')
  expect(texts(nav.getAllByRole('link', { current: 'page' }))).toEqual(['Failed'])
  expect(listCalls()).toEqual(['?limit=25', '?limit=25&state=failed'])

  act(() => history.back())
  await waitFor(() => expect(names()).toEqual(['Deal 1', 'Deal 2']))
})

describe('with the search', () => {
  const some = () => [
    item('1'),
    item('2', { state: 'failed' }),
    item('3', { rule: 'deal-stage-changed', at: '2026-11-19T12:00:00Z' }),
  ]

  test('rule, day and search are in the address, and one link shows everything again', async () => {
    const address = '/activity?rule=deal-stage-changed&q=deal&day=2026-11-19'
    const { user, history, listCalls } = open(some(), address, withSearch)
    await row('Deal 3')
    expect(listCalls()).toEqual([
      '?counts=true&day=2026-11-19&limit=25&q=deal&rule=deal-stage-changed&zone=UTC',
    ])
    await user.click(screen.getByRole('link', { name: 'Show all days, not only Nov 19' }))
    await user.type(screen.getByRole('searchbox'), ' x')
    await user.click(await screen.findByRole('link', { name: 'Show all messages' }))
    await row('Deal 1')
    expect(history.location.href).toBe('/activity')
    expect(screen.getByRole('searchbox')).toHaveValue('')
  })

  test('a search that stops says how far it came, and goes on; a refresh keeps what it found', async () => {
    const found = item('9')
    const day = (date: number) => `2026-11-${date}T12:00:00Z`
    const pages: Record<string, Activity> = {
      first: { items: [], next: '5', searchedTo: day(18) },
      '5': { items: [], next: '3', searchedTo: day(17) },
      '3': { items: [found], next: null },
    }
    const opened = openStopped([], '/activity?q=deal', withSearch)
    server.use(
      http.get(path, ({ request }) => {
        const query = new URL(request.url).searchParams
        return HttpResponse.json(
          query.has('ids') ? { items: [found], next: null } : pages[query.get('before') ?? 'first'],
        )
      }),
    )
    const { listCalls } = await opened
    expect(screen.getByText(/No message found yet/)).toHaveTextContent(
      /Searched back to Wednesday, November 18/,
    )
    await press('Search older')
    await pass(5000)
    expect(screen.getByText(/^No message found yet. Searched back to Tuesday/)).toBeVisible()
    await press('Search older')
    expect(names()).toEqual(['Deal 9'])
    for (let refresh = 0; refresh < 2; refresh += 1) await pass(5000)
    expect(names()).toEqual(['Deal 9'])
    expect(screen.getByText('There are no older messages.')).toBeVisible()
    // The counts are those of the first page.
    expect(listCalls().filter((call) => call.includes('before='))).toEqual(
      [5, 3].map((next) => `?before=${next}&limit=25&q=deal`),
    )
  })

  test('without its feature, the address asks only for the state, and nothing of it appears', async () => {
    const { listCalls } = await openStopped(some(), '/activity?state=sent&q=acme&day=2026-11-19')
    expect(rowNow('Deal 3')).toBeVisible()
    expect(listCalls()).toEqual(['?limit=25&state=sent'])
    expect(screen.queryByRole('searchbox')).not.toBeInTheDocument()
    const chart = within(screen.getByRole('region', { name: 'Last 14 days' }))
    expect(chart.queryByRole('link')).not.toBeInTheDocument()
  })
})

test('Load older says that it failed, adds one page below for a double click, keeps the focus, and says when there is nothing older', async () => {
  const { user, listCalls } = open(many(52))
  const button = await screen.findByRole('button', { name: 'Load older' })
  expect(await screen.findByText('25 messages loaded.')).toHaveAttribute('role', 'status')
  server.use(http.get(path, withStatus(403), { once: true }))
  await user.click(button)
  const failure = await screen.findByText(
    '❌ Failed to load older messages. The server answered with an error (403).',
  )
  expect(failure).toHaveAttribute('role', 'status')
  takeLog()

  const answer = hold('get', path)
  await user.dblClick(button)
  expect(button).toHaveTextContent('Loading…')
  answer()
  await waitFor(() => expect(names()).toHaveLength(50))
  expect(names().slice(24, 27)).toEqual(['Deal 28', 'Deal 27', 'Deal 26'])
  expect(failure).toBeEmptyDOMElement()
  expect(button).toHaveFocus()
  await user.keyboard('{Enter}')
  const end = await screen.findByText('There are no older messages.')
  expect(names()).toHaveLength(52)
  expect(end.parentElement).toHaveFocus()
  const pages = ['28', '28', '3'].map((before) => `?before=${before}&limit=25`)
  expect(listCalls().filter((call) => call.includes('before='))).toEqual(pages)
})

test('a failed load says so and can be tried again', async () => {
  const words = 'The messages could not be loaded'
  const { user, listCalls } = open([item('1')])
  server.use(http.get(path, withStatus(403), { once: true }))
  expect(await screen.findByRole('alert')).toHaveTextContent(words)
  takeLog()
  const answer = hold('get', path)
  await user.tripleClick(screen.getByRole('button', { name: `Try again: ${words}` }))
  expect(listCalls()).toHaveLength(2)
  answer()
  expect(await screen.findByText('Deal 1')).toBeVisible()
  // The button had the focus and is gone. The next Tab goes to the list.
  await user.tab()
  expect(screen.getByRole('link', { name: 'Deal 1' })).toHaveFocus()
})

test('a refresh that fails says so, keeps what is shown, and goes on by itself', async () => {
  const { items, handlers } = await openStopped([item('1')])
  server.use(http.get(path, HttpResponse.error), http.get('*/summary', withStatus(502)))
  await pass(61_000)
  expect(screen.getByText('The messages could not be refreshed')).toBeVisible()
  expect(names()).toEqual(['Deal 1'])
  expect(screen.getByText('The chart could not be refreshed')).toBeVisible()
  expect(screen.getByText('1 sent')).toBeVisible()
  takeLog()
  server.resetHandlers(...handlers)
  items.unshift(item('2'))
  await pass(15_000)
  await press('1 new message above', 'button')
  expect(names()).toEqual(['Deal 2', 'Deal 1'])
  expect(screen.queryByText(/could not be refreshed/)).not.toBeInTheDocument()
})

test('what the backend refuses, it explains in its own sentence: a list, its next page, and to send all again', async () => {
  const refuse = (message: string) => () =>
    HttpResponse.json({ error: { code: 'limited', message } }, { status: 429 })
  const { handlers, user } = open(many(26, { state: 'failed' }), '/activity?state=failed', [
    'activity',
    'retry-all',
  ])
  server.use(http.get(path, refuse('Too many calls. Wait a minute.')))
  expect(await screen.findByRole('alert')).toHaveTextContent(
    'The messages could not be loadedToo many calls. Wait a minute.',
  )
  server.resetHandlers(...handlers)
  await user.click(screen.getByRole('button', { name: /^Try again: The messages/ }))
  const older = await screen.findByRole('button', { name: 'Load older' })
  server.use(http.get(path, refuse('Ask again later')))
  await user.click(older)
  await screen.findByText('❌ Failed to load older messages. Ask again later.')
  server.use(http.post('*/retry-all', refuse('Connect Slack first')))
  await user.click(screen.getByRole('button', { name: 'Send all again' }))
  await screen.findByText('❌ Failed to send them again. Connect Slack first.')
  takeLog()
})

test('however many messages come while the page is open, it keeps only those that it lists, and the newest page', async () => {
  const { items, queryClient } = await openStopped([item('first')])
  for (let refresh = 0; refresh < 5; refresh += 1) {
    items.unshift(...many(25).map(({ id, ...rest }) => ({ ...rest, id: `${refresh}-${id}` })))
    await pass(5000)
  }
  const kept = queryClient
    .getQueryCache()
    .findAll()
    .map(({ state }) => JSON.stringify(state.data))
  expect(new Set(kept.join().match(/"id":"(\d-\d+|first)"/g)).size).toBe(26)
})

describe('a refresh', () => {
  /** `count` messages that are a millisecond apart, the newest first, at this time. */
  const later = (count: number, time: string) =>
    Array.from({ length: count }, (_, n) =>
      item(`${time}-${n}`, {
        at: new Date(Date.parse(`2026-11-20T${time}:00Z`) - n).toISOString(),
      }),
    )

  test('says how many messages are new, moves none, and a press lists them; a late one of the newest page counts', async () => {
    const { items } = await openStopped(many(60))
    await loadAll()
    screen.getByText('Deal 40').focus()
    items.unshift(...later(2, '12:30'))
    items.splice(10, 0, item('late', { at: '2026-11-20T11:51:30Z' }))
    await pass(5000)
    expect(names()).toHaveLength(60)
    expect(names()[0]).toBe('Deal 60')
    expect(screen.getByText('Deal 40')).toHaveFocus()
    // What announces it contains no button.
    const [announced] = screen.getAllByText('3 new messages above')
    expect(announced).toHaveAttribute('role', 'status')
    await press('3 new messages above', 'button')
    expect(names().slice(0, 3)).toEqual(['Deal 12:30-0', 'Deal 12:30-1', 'Deal 60'])
    expect(names()).toHaveLength(25)
    expect(screen.getByRole('heading', { name: 'Messages' })).toHaveFocus()
    // An older page of the former list does not come into this one, and nothing is missing between the pages.
    const answer = hold('get', path, undefined, { once: true })
    await press('Load older')
    items.unshift(...later(40, '14:00'))
    await pass(5000)
    await press('25 or more new messages above', 'button')
    answer()
    await settle()
    await loadAll()
    expect(names()).toEqual(items.map(({ id }) => `Deal ${id}`))
  })

  test('asks for at most 100 ids, and for the others in the next turn', async () => {
    const waiting = many(130, { state: 'waiting' })
    const opened = openStopped(waiting, '/activity?state=waiting')
    // All on the first page, because to load many pages takes seconds.
    const whole = () => HttpResponse.json({ items: waiting, next: null })
    server.use(http.get(path, whole, { once: true }))
    const { items, listCalls } = await opened
    for (const each of items) each.state = 'sent'
    for (let refresh = 0; refresh < 2; refresh += 1) await pass(5000)
    const asked = listCalls().filter((call) => call.includes('ids='))
    expect(asked.map((call) => call.split('%2C').length)).toEqual([100, 30])
    expect(screen.getAllByText('#sales-floor')).toHaveLength(130)
  })
})

test('the messages of one person never show while those of the next one load', async () => {
  const { state, items, user } = open([item('1')])
  state.person = 'ann'
  await row('Deal 1')
  const answer = hold('get', path)
  // The former list stays while that of the filter loads.
  await user.click(screen.getByRole('link', { name: /^Sent/ }))
  expect(screen.getByText('Deal 1')).toBeVisible()
  state.person = 'bob'
  items[0] = item('2')
  await hearFromOtherTab('bob')
  await waitFor(() => expect(screen.queryByText('Deal 1')).not.toBeInTheDocument())
  expect(await screen.findByText('Loading messages…')).toBeVisible()
  answer()
  await row('Deal 2')
})

test('who is signed out elsewhere while reading here reads only that: no chart, no filter and no count of nobody', async () => {
  const { state, items } = open([item('1')], '/activity', withSearch)
  state.person = 'ann'
  await row('Deal 1')
  state.person = 'nobody'
  items.length = 0
  await hearFromOtherTab('nobody')
  const words = 'Connect HubSpot on the dashboard to see your messages.'
  expect(await screen.findByText(words)).toBeVisible()
  expect(screen.getByRole('main')).toHaveTextContent(
    new RegExp(`What was sent to Slack, and what was not.${words}Go to the dashboard$`),
  )
})

test('a list of which one message has failed waits for no summary; until it is there, the buttons do nothing', async () => {
  const lost = item('2', { state: 'failed', reason: 'the channel is archived' })
  const features = ['activity', 'retry-all']
  const summary = { connectFirst: ['slack'] }
  const { calls, user } = open([lost], '/activity?state=failed', features, summary)
  const answer = hold('get', '*/summary')
  const button = await screen.findByRole('button', { name: 'Send again: Deal 2' })
  const all = screen.getByRole('button', { name: 'Send all again' })
  await user.click(button)
  await user.click(all)
  expect(calls('POST')).toEqual([])
  answer()
  await waitFor(() => expect(button).toHaveTextContent('Connect Slack'))
  expect(button).not.toHaveAttribute('aria-disabled')
})

test('what is not known of each sent message stands once above the list, and of one message in its row', async () => {
  const reason = 'Teams has accepted it, but does not say whether it has posted it'
  const { items, user } = open([item('1', { reason }), item('2', { reason }), item('3')])
  await row('Deal 1')
  expect(screen.getAllByText(/Teams has accepted it/)).toHaveLength(2)
  Object.assign(items[2] ?? {}, { reason })
  await user.click(screen.getByRole('link', { name: /^Sent/ }))
  expect(await screen.findByText(`Of each sent message: ${reason}.`)).toBeVisible()
  expect(screen.getAllByText(/Teams has accepted it/)).toHaveLength(1)
})

test('without a summary, failed messages can be sent again', async () => {
  const lost = [item('1', { state: 'failed' }), item('2', { state: 'failed' })]
  const { calls, user } = open(lost, '/activity?state=failed', ['activity', 'retry-all'])
  server.use(http.get('*/summary', withStatus(502)))
  await screen.findByText('The chart could not be loaded')
  await user.click(screen.getByRole('button', { name: 'Send again: Deal 2' }))
  await user.click(screen.getByRole('button', { name: 'Send all again' }))
  await waitFor(() =>
    expect(calls('POST')).toEqual([
      'POST /api/notifications/activity/2/retry',
      'POST /api/notifications/activity/retry-all',
    ]),
  )
  await screen.findByText('1 message will be sent again.')
  takeLog()
})

describe('Send again', () => {
  const failed = () => [
    item('1'),
    item('2', { state: 'failed', reason: 'the channel is archived', tries: 3 }),
    item('3', { state: 'failed', reason: 'Slack did not answer' }),
  ]

  test('is for failed messages alone; the message waits, whatever an earlier refresh answers, and then shows what became of it', async () => {
    const { calls, items } = await openStopped(failed())
    expect(screen.getAllByRole('button', { name: /^Send again/ })).toHaveLength(2)
    const stale = HttpResponse.json({ items: structuredClone(items), next: null })
    const answer = hold('get', path, () => stale, { once: true })
    await pass(5000)
    const button = screen.getByRole('button', { name: 'Send again: Deal 2' })
    button.focus()
    fireEvent.click(button)
    await settle()
    expect(calls('POST')).toEqual(['POST /api/notifications/activity/2/retry'])
    const state = within(rowNow('Deal 2')).getByText('Waiting to be sent').parentElement
    // So a screen reader announces what comes next.
    expect(state).toHaveAttribute('role', 'status')
    answer()
    await settle()
    expect(state).toHaveTextContent('Waiting to be sent')
    // The button had the focus.
    expect(rowNow('Deal 2')).toHaveFocus()
    Object.assign(items[1] ?? {}, { state: 'sent' })
    await pass(5000)
    expect(state).toHaveTextContent('Sent to #sales-floor')
  })

  test('says beside the message why it failed, and soon what it is', async () => {
    const { user, items } = open(failed())
    server.use(http.post(`${path}/:id/retry`, withStatus(409)))
    const button = await screen.findByRole('button', { name: 'Send again: Deal 3' })
    const answer = hold('get', path)
    // A screen reader announces only what changes in a region that is there.
    const region = within(rowNow('Deal 3')).getByRole('status')
    await user.click(button)
    expect(await screen.findByText(/^❌ Failed to send it again\./)).toBe(region)
    expect(button).toHaveFocus()
    takeLog()
    Object.assign(items[2] ?? {}, { state: 'sent' })
    answer()
    await waitFor(() => expect(rowNow('Deal 3')).toHaveTextContent('Sent to #sales-floor'))
  })
})

describe('the chart', () => {
  const daily = Array.from({ length: 14 }, (_, n) => ({
    date: new Date(Date.UTC(2026, 10, 18 + n)).toISOString().slice(0, 10),
    sent: n === 0 ? 10_000 : n === 13 ? 3 : 0,
    failed: n === 13 ? 1 : 0,
  }))

  test('says the figures of any day, the highest, and the sums, without the search and without a mouse; its picture is hidden from screen readers', async () => {
    open([], '/activity', ['activity'], { daily, waiting: 2 })
    const card = within(await screen.findByRole('region', { name: 'Last 14 days' }))
    for (const words of ['10,003 sent', '1 failed', '2 waiting', 'Highest day: 10,000 messages']) {
      expect(await card.findByText(words)).toBeVisible()
    }
    const slider = card.getByRole('slider', { name: 'Day' })
    for (const [value, words] of [
      ['13', 'Dec 1: 3 sent, 1 failed'],
      ['0', 'Nov 18: 10,000 sent, 0 failed'],
    ] as const) {
      fireEvent.change(slider, { target: { value } })
      expect(card.getByText(words)).toBeVisible()
      expect(slider).toHaveAttribute('aria-valuetext', words)
    }
    expect(card.queryByRole('link')).not.toBeInTheDocument()
    for (const svg of document.querySelectorAll('main svg')) {
      expect(svg).toHaveAttribute('aria-hidden', 'true')
    }
    expect(document.querySelector('[style]')).toBeNull()
  })

  test('with the search, lists the messages of the picked day, and all again', async () => {
    const items = [item('1'), item('2', { at: '2026-11-18T12:00:00Z' })]
    const { user, history } = open(items, '/activity', withSearch, { daily })
    fireEvent.change(await screen.findByRole('slider', { name: 'Day' }), { target: { value: '0' } })
    await user.click(screen.getByRole('link', { name: 'Show this day: Nov 18' }))
    await waitFor(() => expect(names()).toEqual(['Deal 2']))
    expect(history.location.href).toBe('/activity?day=2026-11-18')
    await user.click(screen.getByRole('link', { name: 'Show all days' }))
    await waitFor(() => expect(names()).toEqual(['Deal 1', 'Deal 2']))
  })
})
