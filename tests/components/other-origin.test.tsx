import { screen } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test, vi } from 'vitest'
import { server } from '../msw/server.ts'
import { openApp } from '../render.tsx'

// Must run before the imports, which read the settings.
vi.hoisted(() => {
  vi.stubEnv('VITE_API_URL', 'https://api.example.test/')
})

const formAddress = 'https://api.example.test/sandbox/contact-form'

test.each([
  ['has one', { 'contact-form': '/sandbox/contact-form' }, formAddress],
  ['plays only a service', { slack: '/sandbox/slack' }, undefined],
  ['is of section 7', undefined, undefined],
])(
  'without a form of its own, /contact shows that of a backend that %s, or says that there is none',
  async (_, standIns, address) => {
    openApp({}, '/contact')
    server.use(http.get('*/health', () => HttpResponse.json({ status: 'ok', standIns })))
    await screen.findByText(/^Having issues with notifications or setup\?/)
    expect(screen.queryByTitle('Contact form')?.getAttribute('src')).toBe(address)
    const link = screen.queryByRole('link', { name: /open the contact form/ })
    expect(link?.getAttribute('href')).toBe(address)
    const isSaid = screen.queryByText(/^This site has no contact form yet\./) !== null
    expect(isSaid).toBe(address === undefined)
  },
)
