import { configure, screen } from '@testing-library/dom'
import userEvent from '@testing-library/user-event'
import { setupWorker } from 'msw/browser'
import { holdTime, states } from './states.ts'

// Shows the whole app in one state. The backend and the address must be set before the app starts.
const number = Number(new URLSearchParams(window.location.search).get('state'))
const state = states[number]
if (state === undefined) throw new Error(`There is no state ${number}`)

await setupWorker(...state.backend()).start({ quiet: true, onUnhandledFrame: 'bypass' })
holdTime()
window.history.replaceState(null, '', state.address)
await import('../../src/main.tsx')

// Many frames load at once, so each may take long.
configure({ asyncUtilTimeout: 60_000 })
const user = userEvent.setup()
for (const step of state.steps ?? []) {
  const target =
    'press' in step
      ? await screen.findByRole('button', { name: step.press })
      : await screen.findByRole('checkbox', { name: step.tick })
  await user.click(target)
}
