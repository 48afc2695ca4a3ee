import { screen } from '@testing-library/react'
import type { ComponentProps, FunctionComponent } from 'react'
import { beforeEach, expect, test, vi } from 'vitest'
import type { RuleCheckbox as Row } from '../../src/ui/RuleCheckbox.tsx'
import { renderApp, startBackend } from '../render.tsx'

// What was rendered, in order; each component below says so and is itself otherwise.
const rendered = vi.hoisted((): string[] => [])
const told = vi.hoisted(
  () =>
    <Props,>(name: string, component: FunctionComponent<Props>) =>
    (props: Props) => {
      rendered.push(name)
      return component(props)
    },
)

vi.mock('../../src/ui/RuleCheckbox.tsx', async (importOriginal) => {
  const { RuleCheckbox } = await importOriginal<{ RuleCheckbox: typeof Row }>()
  const row = (props: ComponentProps<typeof Row>) => {
    rendered.push(props.id)
    return Reflect.apply(RuleCheckbox.type, undefined, [props])
  }
  // Still memoized as the original is.
  return { RuleCheckbox: { ...RuleCheckbox, type: row } }
})
vi.mock('../../src/components/Dashboard.tsx', async (importOriginal) => {
  const original = await importOriginal<typeof import('../../src/components/Dashboard.tsx')>()
  return { Dashboard: told('Dashboard', original.Dashboard) }
})
vi.mock('../../src/components/Connection.tsx', async (importOriginal) => {
  const original = await importOriginal<typeof import('../../src/components/Connection.tsx')>()
  return { Connection: told('Connection', original.Connection) }
})
vi.mock('../../src/ui/Footer.tsx', async (importOriginal) => {
  const original = await importOriginal<typeof import('../../src/ui/Footer.tsx')>()
  return { Footer: told('Footer', original.Footer) }
})

beforeEach(() => {
  rendered.length = 0
})

test('a tick renders its own row, not the page', async () => {
  startBackend({ connected: new Set(['hubspot', 'slack']), rules: ['deal-closed'] })
  const { user } = renderApp('/')
  const box = await screen.findByRole('checkbox', { name: 'Notify me when a deal stage changes' })
  expect(rendered).toEqual(
    expect.arrayContaining(['Dashboard', 'Connection', 'Footer', 'custom-rule']),
  )

  for (const isChecked of [true, false]) {
    rendered.length = 0
    await user.click(box)
    expect(box).toHaveProperty('checked', isChecked)
    expect(new Set(rendered)).toEqual(new Set(['deal-stage-changed']))
  }
})
