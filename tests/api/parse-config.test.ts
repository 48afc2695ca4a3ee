import { expect, test } from 'vitest'
import { parseConfig } from '../../src/parse-config.ts'

const defaults = {
  apiUrl: '',
  crm: { id: 'hubspot', name: 'HubSpot' },
  chat: { id: 'slack', name: 'Slack' },
  contactFormUrl: '/sandbox/contact-form',
  contactFormOrigins: [],
}

/** Without a form of its own, a page shows that of its backend. */
const formAt = (apiUrl: string) => ({ apiUrl, contactFormUrl: `${apiUrl}/sandbox/contact-form` })

test('empty values and unknown settings give the defaults', () => {
  const empty = { VITE_API_URL: '', VITE_CRM_NAME: ' ', VITE_CHAT_NAME: '' }
  expect(parseConfig({ ...empty, VITE_OTHER: 'x' })).toEqual(defaults)
})

test.each([
  ['VITE_API_URL', 'http://localhost:4000/', formAt('http://localhost:4000')],
  ['VITE_API_URL', 'https://example.test/base//', formAt('https://example.test/base')],
  ['VITE_CRM_NAME', ' Zoho ', { crm: { id: 'zoho', name: 'Zoho' } }],
  ['VITE_CHAT_NAME', 'Rocket.Chat', { chat: { id: 'rocket.chat', name: 'Rocket.Chat' } }],
  ['VITE_CONTACT_FORM_URL', 'https://a.test/?f#x', { contactFormUrl: 'https://a.test/?f#x' }],
  [
    'VITE_CONTACT_FORM_ORIGINS',
    ' https://a.test, http://b.test:8080 ,',
    { contactFormOrigins: ['https://a.test', 'http://b.test:8080'] },
  ],
])('%s=%s is accepted', (name, value, change) => {
  expect(parseConfig({ [name]: value })).toEqual({ ...defaults, ...change })
})

test.each([
  ['VITE_API_URL', 'api.example.test'],
  ['VITE_API_URL', 'javascript:alert(1)'],
  ['VITE_API_URL', 'https://user:secret@example.test'],
  ['VITE_API_URL', 'https://example.test?x=1'],
  ['VITE_CRM_NAME', '../x'],
  ['VITE_CRM_NAME', 'x'.repeat(41)],
  ['VITE_CRM_NAME', '$provider'],
  ['VITE_CRM_NAME', 'Notifications'],
  ['VITE_CRM_NAME', 'slack'],
  ['VITE_CHAT_NAME', 'connect'],
  ['VITE_CONTACT_FORM_URL', '//evil.example.test'],
  ['VITE_CONTACT_FORM_URL', '/\\evil.example.test'],
  ['VITE_CONTACT_FORM_URL', 'javascript:alert(1)'],
  // Each becomes a source of the policy.
  ...[
    'forms.example.test',
    'https://forms.example.test/',
    'https://a.test,https://b.test/f',
    'https://*.example.test',
    "https://a.test 'unsafe-inline'",
    'https://a.test; script-src *',
    'https:',
    'data:',
    'null',
    "'self'",
    '*',
  ].map((origins) => ['VITE_CONTACT_FORM_ORIGINS', origins]),
])('%s=%s is refused, and the message names it', (name, value) => {
  expect(() => parseConfig({ [name]: value })).toThrow(
    new RegExp(`^Invalid settings:\\n- .*${name}`),
  )
})
