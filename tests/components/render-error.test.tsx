import { screen } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { openApp } from '../render.tsx'
import { takeLog } from '../setup.ts'

const { broken } = vi.hoisted(() => ({ broken: { part: '' } }))

vi.mock('../../src/components/RuleSettings.tsx', async (original) => {
  const { RuleSettings, ...rest } =
    await original<typeof import('../../src/components/RuleSettings.tsx')>()
  return { ...rest, RuleSettings: breaking('a card', RuleSettings) }
})
vi.mock('../../src/components/Header.tsx', async (original) => {
  const { Header } = await original<typeof import('../../src/components/Header.tsx')>()
  return { Header: breaking('the frame around every screen', Header) }
})

function breaking<Props extends object>(part: string, Real: (props: Props) => React.ReactNode) {
  return (props: Props) => {
    if (broken.part === part) throw new Error('SECRET reason')
    return <Real {...props} />
  }
}

test.each(['a card', 'the frame around every screen'])(
  'an error in %s shows the generic text with a way back, and not its reason',
  async (part) => {
    broken.part = part
    // The router logs the error, too.
    vi.spyOn(console, 'warn').mockImplementation(() => {})
    openApp()
    const alert = await screen.findByRole('alert')
    expect(alert.textContent).toBe('Something went wrong. Please try again later.')
    expect(screen.getByRole('heading', { level: 1 })).toHaveTextContent('Something went wrong')
    expect(document.title).toBe('Something went wrong · Dealbell')
    expect(screen.getByRole('link', { name: 'Back to the dashboard' })).toHaveAttribute('href', '/')
    expect(document.body).not.toHaveTextContent('SECRET')
    if (part === 'a card') expect(screen.getByRole('contentinfo')).toBeVisible()
    // The browser's log has the reason.
    expect(takeLog().join()).toContain('SECRET reason')
  },
)
