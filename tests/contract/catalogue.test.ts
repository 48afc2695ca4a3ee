import { expect, test } from 'vitest'
import { availableRuleIds, ruleCatalogue } from '../../contract/rules.ts'

test('the catalogue is the table of the specification, and says each event in words', () => {
  const lines = ruleCatalogue.flatMap(({ name, available, rules }) =>
    rules.map(({ id, when }) => `${name}${available ? '' : ', soon'}: ${id}: ${when}`),
  )
  expect(lines).toEqual([
    'Deals: deal-stage-changed: a deal stage changes',
    'Deals: deal-closed: a deal is signed or closed (won/lost)',
    'Deals: deal-stage-changed-orphan: a deal moves stage without a contact or company associated',
    'Contacts, soon: contact-added-to-high-value-deal: a contact is added to a high-value deal',
    'Contacts, soon: contact-decision-maker-added: a decision maker is added as a contact',
    'Contacts, soon: contact-unsubscribed-all: a contact unsubscribes from all communication',
    'Companies, soon: company-created-without-contacts: a company is created without any contacts',
    'Companies, soon: company-became-customer: a company becomes a customer',
    'Companies, soon: company-marked-target-account: a company is marked as a target account',
    'Invoices, soon: invoice-created: an invoice is created',
    'Invoices, soon: invoice-paid: an invoice is paid',
    'Invoices, soon: invoice-overdue: an invoice becomes overdue',
    'Invoices, soon: invoice-high-value: an invoice of a high value is created',
    'Custom, soon: custom-rule: a rule of my own is met',
  ])
})

test('what can be selected now are the rules for deals', () => {
  expect([...availableRuleIds]).toEqual([
    'deal-stage-changed',
    'deal-closed',
    'deal-stage-changed-orphan',
  ])
})
