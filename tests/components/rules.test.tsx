import { fireEvent, screen, waitFor, within } from '@testing-library/react'
import { delay, HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, renderApp, setOnline, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const both = () => new Set(['hubspot', 'slack'])

const catalogue = {
  Deals: [
    'Notify me when a deal stage changes',
    'Notify me when a deal is signed or closed (won/lost)',
    'Notify me when a deal moves stage without a contact or company associated',
  ],
  Contacts: [
    'Notify me when a contact is added to a high-value deal',
    'Notify me when a decision maker is added as a contact',
    'Notify me when a contact unsubscribes from all communication',
  ],
  Companies: [
    'Notify me when a company is created without any contacts',
    'Notify me when a company becomes a customer',
    'Notify me when a company is marked as a target account',
  ],
  Invoices: [
    'Notify me when an invoice is created',
    'Notify me when an invoice is paid',
    'Notify me when an invoice becomes overdue',
    'Notify me when an invoice of a high value is created',
  ],
  Custom: ['Notify me when a rule of my own is met'],
}

/** Every id of the specification's table, in the order of the labels above. */
const ids = [
  'deal-stage-changed',
  'deal-closed',
  'deal-stage-changed-orphan',
  'contact-added-to-high-value-deal',
  'contact-decision-maker-added',
  'contact-unsubscribed-all',
  'company-created-without-contacts',
  'company-became-customer',
  'company-marked-target-account',
  'invoice-created',
  'invoice-paid',
  'invoice-overdue',
  'invoice-high-value',
  'custom-rule',
]

describe('the catalogue', () => {
  test('has the rules of the specification in five groups, and only those for deals are enabled', async () => {
    startBackend()
    renderApp('/')
    const rules = within(await screen.findByRole('region', { name: 'Notification Rules' }))
    const groups = rules.getAllByRole('group')
    expect(groups).toHaveLength(5)
    for (const [index, [name, labels]] of Object.entries(catalogue).entries()) {
      const isDeals = name === 'Deals'
      const group = groups[index] as HTMLElement
      expect(group).toBe(rules.getByRole('group', { name: isDeals ? name : `${name} Coming soon` }))
      const boxes = within(group).getAllByRole('checkbox')
      expect(boxes.map((box) => (box as HTMLInputElement).labels?.[0]?.textContent)).toEqual(labels)
      for (const box of boxes) {
        expect(box).not.toBeChecked()
        if (isDeals) expect(box).toBeEnabled()
        else expect(box).toBeDisabled()
      }
    }
    expect(rules.getAllByRole('checkbox')).toHaveLength(ids.length)
  })

  test.each(ids.map((id, index) => [id, Object.values(catalogue).flat()[index] as string]))(
    '%s that is stored is the ticked %s',
    async (id, label) => {
      startBackend({ rules: [id] })
      renderApp('/')
      expect(await screen.findByRole('checkbox', { name: label })).toBeChecked()
      expect(screen.getAllByRole('checkbox', { checked: true })).toHaveLength(1)
    },
  )

  test('keeps rules that are coming soon unchanged, by mouse, keyboard and script', async () => {
    const { state, calls } = startBackend({ connected: both(), rules: ['custom-rule'] })
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('checkbox', { name: /deal stage changes/ }))
    for (const label of Object.values(catalogue).flat().slice(catalogue.Deals.length)) {
      const box = screen.getByRole<HTMLInputElement>('checkbox', { name: label })
      const isTicked = label === catalogue.Custom[0]
      const stands = () => expect(box.checked, label).toBe(isTicked)

      await user.click(box)
      stands()
      await user.click(screen.getByText(label))
      stands()
      box.focus()
      expect(box).not.toHaveFocus()
      box.click()
      stands()
      fireEvent.click(box)
      stands()
      // Removing the attribute in the inspector does not help.
      box.removeAttribute('disabled')
      box.focus()
      await user.keyboard(' ')
      stands()
      fireEvent.click(box)
      stands()
      box.click()
      stands()
    }
    await user.click(screen.getByRole('button', { name: 'Save' }))
    await waitFor(() => expect(calls('POST')).toHaveLength(1))
    expect(state.rules.toSorted()).toEqual(['custom-rule', 'deal-stage-changed'])
    await screen.findByText('✅ Rules saved successfully!')
  })

  test('toggles a rule for deals by its box, its label and the space bar', async () => {
    startBackend()
    const { user } = renderApp('/')
    const box = await screen.findByRole('checkbox', { name: /deal stage changes/ })
    await user.click(box)
    expect(box).toBeChecked()
    await user.click(screen.getByText('Notify me when a deal stage changes'))
    expect(box).not.toBeChecked()
    box.focus()
    await user.keyboard(' ')
    expect(box).toBeChecked()
  })
})

describe('loading the rules', () => {
  test("shows 'Loading rules…' and no checkbox until they arrive", async () => {
    startBackend({ rules: ['deal-closed'] })
    const answer = Promise.withResolvers<void>()
    server.use(
      http.get('*/api/notifications/rules', async () => {
        await answer.promise
        return HttpResponse.json({ rules: ['deal-closed'] })
      }),
    )
    renderApp('/')
    const rules = within(await screen.findByRole('region', { name: 'Notification Rules' }))
    expect(rules.getByText('Loading rules…')).toHaveAttribute('role', 'status')
    expect(rules.queryByRole('checkbox')).not.toBeInTheDocument()
    expect(rules.queryByRole('button')).not.toBeInTheDocument()
    expect(rules.queryByText('No notification rules defined')).not.toBeInTheDocument()
    answer.resolve()
    expect(await rules.findByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
    expect(rules.queryByText('Loading rules…')).not.toBeInTheDocument()
  })

  test.each([
    ['null', { rules: null }],
    ['an object', { rules: { 'deal-closed': true } }],
    ['a text', { rules: 'deal-closed' }],
    ['a number', { rules: 3 }],
    ['missing', {}],
  ])('treats rules that are %s as none', async (_name, body) => {
    startBackend()
    server.use(http.get('*/api/notifications/rules', () => HttpResponse.json(body)))
    renderApp('/')
    expect(await screen.findByText('No notification rules defined')).toBeVisible()
    expect(screen.queryByRole('checkbox', { checked: true })).not.toBeInTheDocument()
  })

  test('ignores ids that are no strings, and counts a duplicate once', async () => {
    const { requests } = startBackend({ connected: both() })
    server.use(
      http.get('*/api/notifications/rules', () =>
        HttpResponse.json({
          rules: ['deal-closed', 1, null, 'deal-closed', { id: 'deal-stage-changed' }, ['x'], true],
        }),
      ),
    )
    const { user } = renderApp('/')
    expect(await screen.findByRole('checkbox', { checked: true })).toHaveAccessibleName(
      /signed or closed/,
    )
    await user.click(screen.getByRole('button', { name: 'Save' }))
    await waitFor(() => expect(requests.at(-1)?.body).toBe('{"rules":["deal-closed"]}'))
    await screen.findByRole('button', { name: 'Save' })
    takeLog()
  })

  test.each([
    ['a 500', () => new HttpResponse(null, { status: 500 }), 2],
    ['a 403', () => new HttpResponse(null, { status: 403 }), 1],
    ['a dropped connection', () => HttpResponse.error(), 2],
    ['HTML', () => HttpResponse.html('<p>Hi</p>'), 1],
    ['a list alone', () => HttpResponse.json(['deal-closed']), undefined],
  ])(
    'that fails with %s leaves a usable catalogue and one line in the log',
    async (_name, answer, tries) => {
      const { state, calls } = startBackend({ connected: both() })
      server.use(http.get('*/api/notifications/rules', answer))
      const { user } = renderApp('/')
      const box = await screen.findByRole('checkbox', { name: /deal stage changes/ })
      if (tries !== undefined) {
        expect(takeLog()).toEqual([expect.stringMatching(/^Loading rules failed: /)])
        expect(calls('GET /api/notifications/rules')).toHaveLength(tries)
      }
      expect(screen.queryByText(/fail|went wrong/i)).not.toBeInTheDocument()
      expect(screen.getByText('No notification rules defined')).toBeVisible()
      await user.click(box)
      await user.click(screen.getByRole('button', { name: 'Save' }))
      expect(await screen.findByText('✅ Rules saved successfully!')).toBeVisible()
      expect(state.rules).toEqual(['deal-stage-changed'])
      expect(box).toBeChecked()
      takeLog()
    },
  )

  test('happens once: focus, reconnect and coming back neither fetch again nor change a tick', async () => {
    const { state, calls } = startBackend({ rules: ['deal-closed'] })
    const { user, router } = renderApp('/')
    await screen.findByRole('checkbox', { name: /signed or closed/ })
    state.rules = []
    lookAgain()
    setOnline(false)
    setOnline(true)
    await settle()
    expect(screen.getByRole('checkbox', { name: /signed or closed/ })).toBeChecked()

    await router.navigate({ to: '/contact' })
    await screen.findByRole('heading', { name: 'Contact Support' })
    await user.click(screen.getByRole('link', { name: 'Dealbell' }))
    expect(await screen.findByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
    const tick = screen.getByRole('checkbox', { name: /deal stage changes/ })
    await user.click(tick)
    lookAgain()
    setOnline(false)
    setOnline(true)
    await settle()
    expect(tick).toBeChecked()
    expect(calls('GET /api/notifications/rules')).toHaveLength(1)
  })

  /** The rules fail to load until the returned function is called. */
  function failLoading() {
    let isFailing = true
    server.use(
      http.get('*/api/notifications/rules', () =>
        isFailing ? new HttpResponse(null, { status: 403 }) : undefined,
      ),
    )
    return () => {
      isFailing = false
    }
  }

  test.each([
    ['focus', lookAgain],
    ['reconnect', () => [false, true].forEach(setOnline)],
  ])(
    'that failed is repeated by %s, and adds to what was ticked meanwhile',
    async (_name, happens) => {
      const { state, calls } = startBackend({
        connected: both(),
        rules: ['deal-closed', 'a-rule-of-tomorrow'],
      })
      const works = failLoading()
      const { user } = renderApp('/')
      const box = await screen.findByRole('checkbox', { name: /deal stage changes/ })
      await user.click(box)
      await settle()
      expect(calls('GET /api/notifications/rules')).toHaveLength(1)
      happens()
      await settle()
      // It failed again. The form and its focus stay.
      expect(calls('GET /api/notifications/rules')).toHaveLength(2)
      expect(box).toBeChecked()
      expect(box).toHaveFocus()
      expect(takeLog()).toHaveLength(2)

      works()
      happens()
      expect(await screen.findByRole('checkbox', { name: /signed or closed/, checked: true }))
      expect(box).toBeChecked()
      expect(screen.getByText('Unsaved changes')).toBeVisible()
      await user.click(screen.getByRole('button', { name: 'Save' }))
      expect(await screen.findByText('✅ Rules saved successfully!')).toBeVisible()
      expect(state.rules.toSorted()).toEqual([
        'a-rule-of-tomorrow',
        'deal-closed',
        'deal-stage-changed',
      ])
      // Known rules are not loaded again.
      happens()
      await settle()
      expect(calls('GET /api/notifications/rules')).toHaveLength(3)
    },
  )

  test.each([[true], [false]])(
    'that failed is repeated before a save, which keeps the stored rules: ticked meanwhile is %s',
    async (ticks) => {
      const { state } = startBackend({ connected: both(), rules: ['deal-closed'] })
      const works = failLoading()
      const { user } = renderApp('/')
      const box = await screen.findByRole('checkbox', { name: /deal stage changes/ })
      if (ticks) await user.click(box)
      works()
      await user.click(screen.getByRole('button', { name: 'Save' }))
      expect(await screen.findByText('✅ Rules saved successfully!')).toBeVisible()
      expect(state.rules).toEqual(['deal-closed', ...(ticks ? ['deal-stage-changed'] : [])])
      expect(screen.getByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
      expect(screen.queryByText('Unsaved changes')).not.toBeInTheDocument()
      expect(takeLog()).toHaveLength(1)
    },
  )

  test('that failed is not repeated by a tick', async () => {
    const { calls } = startBackend()
    failLoading()
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('checkbox', { name: /deal stage changes/ }))
    await settle()
    expect(calls('GET /api/notifications/rules')).toHaveLength(1)
    expect(takeLog()).toHaveLength(1)
  })

  test('that hangs leaves the rest of the dashboard usable', async () => {
    startBackend({ connected: both() })
    server.use(http.get('*/api/notifications/rules', () => delay('infinite')))
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('button', { name: 'Disconnect Slack' }))
    expect(await screen.findByRole('button', { name: 'Connect Slack' })).toBeVisible()
    expect(screen.getByText('Loading rules…')).toBeVisible()
  })
})

describe('an empty selection', () => {
  test('shows a warning until one rule is ticked', async () => {
    startBackend({ connected: both() })
    const { user } = renderApp('/')
    const title = await screen.findByText('No notification rules defined')
    const warning = title.closest('[role=status]')
    expect(warning).toHaveTextContent(/no notifications until you select at least one rule/)
    expect(warning).toHaveTextContent(/deal stage changes/)
    expect(warning).toHaveTextContent(/deal is closed \(won\/lost\)/)
    const box = screen.getByRole('checkbox', { name: /deal stage changes/ })
    await user.click(box)
    expect(screen.queryByText('No notification rules defined')).not.toBeInTheDocument()
    await user.click(box)
    expect(screen.getByText('No notification rules defined')).toBeVisible()
  })

  test('and a disconnect are announced: the live regions are there before their words', async () => {
    startBackend({ connected: both(), rules: ['deal-closed'] })
    const { user } = renderApp('/')
    const box = await screen.findByRole('checkbox', { name: /signed or closed/ })
    const regions = screen.getAllByRole('status')
    await user.click(box)
    await user.click(screen.getByRole('button', { name: 'Disconnect Slack' }))
    for (const title of ['No notification rules defined', 'Connections required']) {
      expect(regions).toContain((await screen.findByText(title)).closest('[role=status]'))
    }
  })

  test('that is loaded is announced: the live region is there before the rules', async () => {
    startBackend({ connected: both() })
    const held = Promise.withResolvers<void>()
    server.use(http.get('*/api/notifications/rules', () => held.promise.then(() => undefined)))
    renderApp('/')
    await screen.findByText('Loading rules…')
    const regions = screen.getAllByRole('status')
    held.resolve()
    const title = await screen.findByText('No notification rules defined')
    expect(regions).toContain(title.closest('[role=status]'))
  })

  test('is not empty if it holds a rule that this page does not know', async () => {
    startBackend({ rules: ['a-rule-of-tomorrow'] })
    renderApp('/')
    await screen.findByRole('checkbox', { name: /deal stage changes/ })
    expect(screen.queryByText('No notification rules defined')).not.toBeInTheDocument()
  })

  test('may be saved', async () => {
    const { state, requests } = startBackend({ connected: both(), rules: ['deal-closed'] })
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('checkbox', { name: /signed or closed/ }))
    await user.click(screen.getByRole('button', { name: 'Save' }))
    expect(await screen.findByText('✅ Rules saved successfully!')).toBeVisible()
    expect(screen.getByText('No notification rules defined')).toBeVisible()
    expect(requests.at(-1)?.body).toBe('{"rules":[]}')
    expect(state.rules).toEqual([])
  })
})
