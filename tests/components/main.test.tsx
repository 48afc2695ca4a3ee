import { act, screen } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test, vi } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

/** Starts the dashboard as index.html does. */
async function start() {
  document.body.innerHTML = '<div id="root"><p>Loading…</p></div>'
  vi.resetModules()
  await act(() => import('../../src/main.tsx'))
}

test('the page makes each call once, and the dashboard replaces Loading…', async () => {
  const { calls } = startBackend({ connected: new Set(['hubspot', 'slack']) })
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

test('a health check that fails before the first render is not repeated', async () => {
  const { calls } = startBackend()
  server.use(http.get('*/health', () => HttpResponse.error()))
  await start()
  expect(await screen.findByText('Backend service is unavailable.')).toBeVisible()
  await settle()
  expect(calls('GET /health')).toHaveLength(1)
  takeLog()

  server.use(http.get('*/health', () => HttpResponse.json({ status: 'ok' })))
  screen.getByRole('button', { name: 'Try again' }).click()
  expect(await screen.findByRole('region', { name: 'Connections' })).toBeVisible()
})

test('a page without the root element throws an error that names it', async () => {
  document.body.innerHTML = ''
  vi.resetModules()
  await expect(import('../../src/main.tsx')).rejects.toThrow(/id root/)
})
