import { screen } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { renderApp, startBackend } from '../render.tsx'

// Each render of a component creates its elements anew, so their types tell what was rendered.
const created = vi.hoisted((): unknown[] => [])
vi.mock('react/jsx-dev-runtime', async (importOriginal) => {
  const original = await importOriginal<{ jsxDEV: (...args: unknown[]) => unknown }>()
  return {
    ...original,
    jsxDEV: (...args: unknown[]) => {
      created.push(args[0])
      return original.jsxDEV(...args)
    },
  }
})

const timesCreated = (type: string) => created.filter((other) => other === type).length

test('a tick renders its own row, and neither the other rows nor the rest of the page', async () => {
  startBackend({ connected: new Set(['hubspot', 'slack']), rules: ['deal-closed'] })
  const { user } = renderApp('/')
  const box = await screen.findByRole('checkbox', { name: 'Notify me when a deal stage changes' })
  for (const type of ['label', 'li', 'textarea', 'header', 'footer']) {
    expect(timesCreated(type), type).toBeGreaterThan(0)
  }

  for (const isChecked of [true, false]) {
    created.length = 0
    await user.click(box)
    expect(box).toHaveProperty('checked', isChecked)
    // StrictMode renders each component twice.
    expect(timesCreated('label')).toBe(2)
    for (const type of ['li', 'textarea', 'header', 'footer']) {
      expect(timesCreated(type), type).toBe(0)
    }
  }
})
