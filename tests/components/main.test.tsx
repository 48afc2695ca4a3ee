import { act, screen } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { settle } from '../clock.ts'
import { both, startBackend } from '../render.tsx'

/** Starts the dashboard as index.html does. */
async function start() {
  document.body.innerHTML = '<div id="root"><p>Loading…</p></div>'
  vi.resetModules()
  await act(() => import('../../src/main.tsx'))
}

test('the page makes each call once, and the dashboard replaces Loading…', async () => {
  const { calls } = startBackend({ connected: both() })
  await start()
  expect(await screen.findByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
  expect(screen.queryByText('Loading…')).not.toBeInTheDocument()
  await settle()
  expect(calls().sort()).toEqual([
    'GET /api/hubspot/status',
    'GET /api/notifications/rules',
    'GET /api/slack/status',
    'GET /health',
  ])
})

test('a page without the root element throws an error that names it', async () => {
  document.body.innerHTML = ''
  vi.resetModules()
  await expect(import('../../src/main.tsx')).rejects.toThrow(/id root/)
})
