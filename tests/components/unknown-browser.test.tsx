import { act, screen } from '@testing-library/react'
import { expect, onTestFinished, test, vi } from 'vitest'
import { both, lookAgain, openApp } from '../render.tsx'
import { closedBox, saved, tickAndSave } from './dashboard.ts'

const refuse = () => {
  throw new DOMException('The operation is insecure.', 'SecurityError')
}
const sayZone = (timeZone: string) =>
  vi
    .spyOn(Intl.DateTimeFormat.prototype, 'resolvedOptions')
    .mockReturnValue({ timeZone } as Intl.ResolvedDateTimeFormatOptions)
const replaceChannel = (channel: unknown) => {
  globalThis.personChannel?.close()
  globalThis.personChannel = undefined
  vi.stubGlobal('BroadcastChannel', channel)
  onTestFinished(() => void vi.unstubAllGlobals())
}

test.each<[string, () => unknown]>([
  ['its time zone', () => sayZone('Etc/Unknown')],
  ['a channel between tabs', () => replaceChannel(undefined)],
  ['a storage', () => vi.spyOn(window, 'sessionStorage', 'get').mockImplementation(refuse)],
])(
  'a browser that does not know %s shows every screen, saves, and shows the next person',
  async (_what, forget) => {
    forget()
    const features = ['activity', 'activity-search', 'sessions']
    const { calls, router, state, user } = openApp(
      { person: 'ann', connected: both(), codes: new Set(['abc']), features },
      '/slack/callback?code=abc',
    )
    await tickAndSave(user)
    expect(await screen.findByText(saved)).toBeVisible()
    await act(() => router.navigate({ href: '/activity?day=2026-11-19' }))
    expect(await screen.findByText('0 sent')).toBeVisible()
    await act(() => router.navigate({ to: '/contact' }))
    expect(await screen.findByTitle('Contact form')).toHaveAttribute('src')
    await act(() => router.navigate({ to: '/' }))
    await closedBox()
    Object.assign(state, { person: 'bob', rules: ['deal-closed'] })
    lookAgain()
    const box = { name: /signed or closed/, checked: true }
    expect(await screen.findByRole('checkbox', box)).toBeVisible()
    const zones = calls().flatMap((call) => new URLSearchParams(call.split('?')[1]).getAll('zone'))
    for (const zone of zones)
      expect(() => Intl.DateTimeFormat('en', { timeZone: zone })).not.toThrow()
  },
)
