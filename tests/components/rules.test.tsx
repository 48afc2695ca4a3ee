import { screen, waitFor, within } from '@testing-library/react'
import { expect, test } from 'vitest'
import { ruleCatalogue } from '../../contract/rules.ts'
import { both, comeOutOfCache, hold, openApp } from '../render.tsx'
import { button, closedBox, rulesPath, saveButton, saved, tickAndSave } from './dashboard.ts'

/** Each category of the specification: its rules with their labels. */
const catalogue: Record<string, Record<string, string>> = {
  Deals: {
    'deal-stage-changed': 'a deal stage changes',
    'deal-closed': 'a deal is signed or closed (won/lost)',
    'deal-stage-changed-orphan': 'a deal moves stage without a contact or company associated',
  },
  Contacts: {
    'contact-added-to-high-value-deal': 'a contact is added to a high-value deal',
    'contact-decision-maker-added': 'a decision maker is added as a contact',
    'contact-unsubscribed-all': 'a contact unsubscribes from all communication',
  },
  Companies: {
    'company-created-without-contacts': 'a company is created without any contacts',
    'company-became-customer': 'a company becomes a customer',
    'company-marked-target-account': 'a company is marked as a target account',
  },
  Invoices: {
    'invoice-created': 'an invoice is created',
    'invoice-paid': 'an invoice is paid',
    'invoice-overdue': 'an invoice becomes overdue',
    'invoice-high-value': 'an invoice of a high value is created',
  },
  Custom: { 'custom-rule': 'a rule of my own is met' },
}
const none = 'No notification rules defined'

test('the catalogue has the rules of the specification in five groups, and only those for deals are enabled', async () => {
  openApp()
  const rules = within(await screen.findByRole('region', { name: 'Notification Rules' }))
  // The ids of the labels. The model (tests/components/model) ticks, saves and loads by them.
  const offered = ruleCatalogue.map(({ name, rules }) => [
    name,
    Object.fromEntries(rules.map(({ id, when }) => [id, when])),
  ])
  expect(Object.fromEntries(offered)).toEqual(catalogue)
  for (const [name, labels] of Object.entries(catalogue)) {
    const isDeals = name === 'Deals'
    const group = rules.getByRole('group', { name: isDeals ? name : `${name} Coming soon` })
    for (const when of Object.values(labels)) {
      const box = within(group).getByRole('checkbox', { name: `Notify me when ${when}` })
      expect(box).toHaveProperty('disabled', !isDeals)
    }
  }
  expect(rules.getAllByRole('group')).toHaveLength(5)
})

test("shows 'Loading rules…' and no checkbox until they arrive, while the rest works", async () => {
  const { user } = openApp({ connected: both(), rules: ['deal-closed'] })
  const answer = hold('get', rulesPath)
  const rules = within(await screen.findByRole('region', { name: 'Notification Rules' }))
  const loading = rules.getByText('Loading rules…')
  expect(rules.queryByRole('checkbox')).not.toBeInTheDocument()
  expect(rules.queryByText(none)).not.toBeInTheDocument()
  await user.click(await button('Disconnect Slack'))
  expect(await button('Connect Slack')).toBeVisible()
  answer()
  expect(await closedBox()).toBeChecked()
  expect(loading).not.toBeInTheDocument()
})

test('an empty selection, a save and a disconnect are announced: the live regions are there before their words', async () => {
  const { user } = openApp({ connected: both() })
  const answer = hold('get', rulesPath)
  await screen.findByText('Loading rules…')
  const expectAnnounced = async (title: string, happen: () => unknown) => {
    const regions = screen.getAllByRole('status')
    await happen()
    expect(regions).toContain((await screen.findByText(title)).closest('[role=status]'))
  }
  await expectAnnounced(none, answer)
  expect(screen.getByText(none).closest('[role=status]')).toHaveTextContent(
    /no notifications until you select at least one rule, .* deal stage changes .* closed \(won\/lost\)/,
  )
  await expectAnnounced(saved, () => user.click(saveButton()))
  const disconnect = await button('Disconnect Slack')
  await expectAnnounced('Connections required', () => user.click(disconnect))
})

// The model (tests/components/model) has the rest: /contact and back, and which changes stay.
test.each<[string, (app: ReturnType<typeof openApp>) => Promise<unknown> | unknown]>([
  [
    'comes back from Activity',
    async ({ user }) => {
      await user.click(screen.getByRole('link', { name: 'Activity' }))
      await screen.findByRole('heading', { name: 'Activity' })
      await user.click(screen.getByRole('link', { name: 'Dashboard' }))
    },
  ],
  ['comes back with the back-forward cache', comeOutOfCache],
])(
  'whoever %s sees what another tab has saved meanwhile, and does not overwrite it',
  async (_how, comeBack) => {
    const app = openApp({
      person: 'ann',
      connected: both(),
      rules: ['deal-closed'],
      features: ['activity'],
    })
    const { calls, state, user } = app
    expect(await closedBox()).toBeChecked()
    expect(calls('GET /api/notifications/rules')).toHaveLength(1)
    state.rules = ['deal-stage-changed-orphan']
    await comeBack(app)
    await waitFor(() =>
      expect(screen.getByRole('checkbox', { name: /signed or closed/ })).not.toBeChecked(),
    )
    expect(calls('GET /api/notifications/rules')).toHaveLength(2)
    await tickAndSave(user)
    expect(await screen.findByText(saved)).toBeVisible()
    expect(state.rules).toEqual(['deal-stage-changed-orphan', 'deal-stage-changed'])
  },
)
