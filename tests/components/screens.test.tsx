import { act, screen, waitFor, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test, vi } from 'vitest'
import type { FeatureName } from '../../contract/features.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, openApp } from '../render.tsx'
import { takeLog } from '../setup.ts'

const screens = [
  { address: '/', title: 'Deal notifications' },
  { address: '/contact', title: 'Contact Support' },
  { address: '/connect/hubspot', title: 'Connect HubSpot' },
  { address: '/hubspot/callback', title: 'Connecting HubSpot' },
  { address: '/slack/callback', title: 'Connecting Slack' },
  { address: '/no/such/page', title: 'Page not found' },
] as const

test.each(screens)(
  '$address has a title, one h1, one main element, a header, a footer with help, and focuses its heading only after a navigation',
  async ({ address, title }) => {
    const { router } = openApp({}, address)
    expect(await screen.findByRole('heading', { level: 1, name: title })).toBeVisible()
    expect(screen.getAllByRole('heading', { level: 1 })).toHaveLength(1)
    expect(screen.getAllByRole('main')).toHaveLength(1)
    expect(document.body).toHaveFocus()
    const header = within(screen.getByRole('banner'))
    expect(header.getByRole('link', { name: 'Dealbell' })).toHaveAttribute('href', '/')
    const footer = within(screen.getByRole('contentinfo'))
    expect(footer.getByText('Need Help?')).toBeVisible()
    const link = footer.getByRole('link', { name: 'Contact Support' })
    expect(link).toHaveAttribute('href', '/contact')
    expect(link).toHaveAttribute('target', '_blank')

    const other = screens[address === screens[1].address ? 2 : 1]
    for (const { address: href, title: name } of [other, { address, title }]) {
      await act(() => router.navigate({ href }))
      const heading = await screen.findByRole('heading', { level: 1, name })
      await waitFor(() => expect(heading).toHaveFocus())
      expect(document.title).toBe(`${name} · Dealbell`)
    }
    await settle()
    takeLog()
  },
)

test('/contact shows its text, the form in a frame, and a link for users who cannot see the frame', async () => {
  const { calls } = openApp({}, '/contact')
  expect(
    await screen.findByText(
      "Having issues with notifications or setup? Fill out the form and we'll get back to you.",
    ),
  ).toBeVisible()
  const form = screen.getByTitle('Contact form')
  expect(form).toHaveAttribute('src', '/sandbox/contact-form')
  expect(form).toHaveAttribute('height', '600')
  // At most 800 wide, and no wider than a phone.
  expect(form).toHaveClass('w-full', 'max-w-[800px]')
  // The form has our own origin. With 'allow-same-origin' its scripts could remove the sandbox.
  const allowed = form.getAttribute('sandbox')?.split(' ')
  expect(allowed?.toSorted()).toEqual(['allow-forms', 'allow-scripts'])
  expect(form).toHaveAttribute('referrerpolicy', 'no-referrer')
  const link = screen.getByRole('link', { name: 'open the contact form in a new tab' })
  expect(link).toHaveAttribute('href', '/sandbox/contact-form')
  expect(calls()).toEqual(['GET /health'])
})

test('/contact shows no form that a backend on the same origin does not have', async () => {
  openApp({}, '/contact')
  server.use(http.get('*/health', () => HttpResponse.json({ status: 'ok', standIns: {} })))
  await screen.findByText(/^This site has no contact form yet\./)
  expect(screen.queryByTitle('Contact form')).not.toBeInTheDocument()
})

test('/connect/hubspot, opened without an attempt, says the status and offers to connect', async () => {
  const assign = vi.spyOn(window.location, 'assign').mockImplementation(() => {})
  const { calls, state, user } = openApp({}, '/connect/hubspot')
  const words = await screen.findByText('HubSpot is not connected.')
  await user.click(screen.getByRole('button', { name: 'Connect HubSpot' }))
  expect(assign.mock.calls).toEqual([['/api/hubspot/auth']])
  expect(calls()).toEqual(['GET /health', 'GET /api/hubspot/status'])
  // The server goes on with an exchange of which the page got no answer.
  state.connected.add('hubspot')
  lookAgain()
  await waitFor(() => expect(words).toHaveTextContent(/^HubSpot is connected\.$/))
  // Nothing invites the user to connect again, and the focus of the button is not lost.
  expect(screen.queryByRole('button', { name: 'Connect HubSpot' })).not.toBeInTheDocument()
  expect(screen.getByRole('heading', { level: 1 })).toHaveFocus()
})

test.each<[string, FeatureName?]>([
  ['/connect/slack', 'sessions'],
  ['/HUBSPOT/callback?code=abc', 'sessions'],
  ['/api/callback?code=abc', 'sessions'],
  ['/%E0%A4%A', 'sessions'],
  // Only a backend with the feature has this screen.
  ['/activity?state=failed'],
])('%s says that something went wrong, and calls only health', async (address, ...features) => {
  const { calls } = openApp({ features: features.filter((one) => one !== undefined) }, address)
  const alert = await screen.findByRole('alert')
  expect(alert.textContent).toBe('Something went wrong. Please try again later.')
  expect(screen.getByRole('link', { name: 'Back to the dashboard' })).toHaveAttribute('href', '/')
  await settle()
  expect(calls()).toEqual(['GET /health'])
})

test.each([
  [window.location.origin, undefined],
  ['javascript:alert(1)', undefined],
  ['http://192.168.1.5:3000', 'http://192.168.1.5:3000'],
])(
  'if the backend expects the dashboard at %s, the page says to open %s',
  async (appUrl, address) => {
    openApp({}, '/connect/hubspot')
    server.use(http.get('*/health', () => HttpResponse.json({ status: 'ok', appUrl })))
    await screen.findByRole('button', { name: 'Connect HubSpot' })
    if (address !== undefined) await screen.findByText(/do not work at this address/)
    const link = within(screen.getByRole('banner')).queryByRole('link', { name: /:/ })
    expect(link?.getAttribute('href')).toBe(address)
  },
)
