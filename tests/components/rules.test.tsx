import { screen, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { ruleCatalogue } from '../../contract/rules.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, hold, openApp, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { button, closedBox, rulesPath, saveButton, saved, stageBox } from './dashboard.ts'

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
const label = (when: string) => `Notify me when ${when}`
const all = Object.values(catalogue).flatMap((rules) => Object.entries(rules))
const none = 'No notification rules defined'

describe('the catalogue', () => {
  test('has the rules of the specification in five groups, and only those for deals are enabled', async () => {
    openApp()
    const rules = within(await screen.findByRole('region', { name: 'Notification Rules' }))
    const groups = rules.getAllByRole('group')
    expect(groups).toHaveLength(5)
    for (const [index, [name, labels]] of Object.entries(catalogue).entries()) {
      const isDeals = name === 'Deals'
      const group = groups[index] as HTMLElement
      expect(group).toBe(rules.getByRole('group', { name: isDeals ? name : `${name} Coming soon` }))
      const boxes = within(group).getAllByRole('checkbox')
      expect(boxes.map((box) => (box as HTMLInputElement).labels?.[0]?.textContent)).toEqual(
        Object.values(labels).map(label),
      )
      for (const box of boxes) {
        expect(box).not.toBeChecked()
        if (isDeals) expect(box).toBeEnabled()
        else expect(box).toBeDisabled()
      }
    }
    expect(rules.getAllByRole('checkbox')).toHaveLength(all.length)
    // The ids of the labels. The model (tests/components/model) ticks, saves and loads by them.
    const offered = ruleCatalogue.flatMap((category) =>
      category.rules.map(({ id, when }) => [id, when]),
    )
    expect(offered).toEqual(all)
  })
})

describe('loading the rules', () => {
  test("shows 'Loading rules…' and no checkbox until they arrive, while the rest works", async () => {
    const { user } = openApp({ connected: both(), rules: ['deal-closed'] })
    const answer = hold('get', rulesPath)
    const rules = within(await screen.findByRole('region', { name: 'Notification Rules' }))
    expect(rules.getByText('Loading rules…')).toHaveAttribute('role', 'status')
    expect(rules.queryByRole('checkbox')).not.toBeInTheDocument()
    expect(rules.queryByRole('button')).not.toBeInTheDocument()
    expect(rules.queryByText(none)).not.toBeInTheDocument()
    await user.click(await button('Disconnect Slack'))
    expect(await button('Connect Slack')).toBeVisible()
    answer()
    expect(await closedBox()).toBeChecked()
    expect(rules.queryByText('Loading rules…')).not.toBeInTheDocument()
  })

  test.each([
    ['a 500', withStatus(500), 2],
    ['HTML', () => HttpResponse.html('<p>Hi</p>'), 1],
    // tests/contract/answers.test.ts has more such answers, and lists with ids that are no texts.
    ['a list alone', () => HttpResponse.json(['deal-closed']), undefined],
    ['rules that are no list', () => HttpResponse.json({ rules: 'deal-closed' }), undefined],
  ])('with %s leaves a usable catalogue and one line in the log', async (_, answer, tries) => {
    const { state, calls, user } = openApp({ connected: both() })
    server.use(http.get(rulesPath, answer))
    const box = await stageBox()
    if (tries !== undefined) {
      expect(takeLog()).toEqual([expect.stringMatching(/^Loading rules failed: /)])
    }
    expect(screen.queryByText(/fail|went wrong/i)).not.toBeInTheDocument()
    expect(screen.getByText(none)).toBeVisible()
    await user.click(box)
    // A tick does not load again.
    await settle()
    expect(calls('GET /api/notifications/rules')).toHaveLength(tries ?? 1)
    await user.click(await button('Save'))
    expect(await screen.findByText(saved)).toBeVisible()
    expect(state.rules).toEqual(['deal-stage-changed'])
    expect(box).toBeChecked()
    // The save has tried once more.
    expect(takeLog()).toEqual(
      tries === undefined ? [] : [expect.stringMatching(/^Loading rules failed: /)],
    )
  })
})

describe('an empty selection', () => {
  test('shows a warning until one rule is ticked, and may be saved', async () => {
    const { state, user } = openApp({ connected: both(), rules: ['deal-stage-changed'] })
    const box = await stageBox()
    expect(screen.queryByText(none)).not.toBeInTheDocument()
    await user.click(box)
    const warning = screen.getByText(none).closest('[role=status]')
    expect(warning).toHaveTextContent(/no notifications until you select at least one rule/)
    expect(warning).toHaveTextContent(/deal stage changes/)
    expect(warning).toHaveTextContent(/deal is closed \(won\/lost\)/)
    await user.click(await button('Save'))
    expect(await screen.findByText(saved)).toBeVisible()
    expect(screen.getByText(none)).toBeVisible()
    expect(state.rules).toEqual([])
  })

  test('is announced, like a save and a disconnect: the live regions are there before their words', async () => {
    const { user } = openApp({ connected: both() })
    const answer = hold('get', rulesPath)
    await screen.findByText('Loading rules…')
    const expectAnnounced = async (title: string, happen: () => unknown) => {
      const regions = screen.getAllByRole('status')
      await happen()
      expect(regions).toContain((await screen.findByText(title)).closest('[role=status]'))
    }
    await expectAnnounced(none, answer)
    const box = await closedBox()
    await user.click(box)
    await expectAnnounced(none, () => user.click(box))
    await user.click(box)
    await expectAnnounced(saved, () => user.click(saveButton()))
    const disconnect = await button('Disconnect Slack')
    await expectAnnounced('Connections required', () => user.click(disconnect))
  })
})
