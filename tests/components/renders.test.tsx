import { screen } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { summaryQuery } from '../../src/api/summary.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { sentItem } from '../msw/activity.ts'
import { both, openApp } from '../render.tsx'

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

test.each([
  ['of section 7', undefined],
  ['that offers more', ['activity', 'preview', 'test-message']],
])('with a backend %s, a tick renders its own row and nothing else', async (_what, features) => {
  const { user } = openApp({ connected: both(), rules: ['deal-closed'], features })
  const box = await screen.findByRole('checkbox', { name: 'Notify me when a deal stage changes' })
  if (features) await screen.findByText('Would have sent 31 messages in the last 7 days')
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

test('a new message renders no row of the activity, and one that has changed its own alone', async () => {
  stopClock()
  const message = (n: number) =>
    sentItem(`${n}`, { at: new Date(Date.now() + n).toISOString(), state: 'failed' })
  const items = Array.from({ length: 20 }, (_, n) => message(20 - n))
  const { queryClient } = openApp({ features: ['activity'], activity: { items } }, '/activity')
  await settle()
  // The list reads the summary once for all rows.
  expect(queryClient.getQueryCache().find(summaryQuery)?.getObserversCount()).toBeLessThan(5)
  // Only a row has a time.
  expect(timesCreated('time')).toBe(40)
  // The first refresh renders each row once more.
  await pass(5000)
  created.length = 0
  items.unshift(message(21))
  await pass(5000)
  expect(screen.getByRole('button', { name: '1 new message above' })).toBeVisible()
  expect(timesCreated('time')).toBe(0)
  Object.assign(items[5] ?? {}, { state: 'sent' })
  await pass(5000)
  expect(screen.getByText('Sent to #sales-floor')).toBeVisible()
  expect(timesCreated('time')).toBe(2)
})
