import { configure, screen } from '@testing-library/dom'
import userEvent from '@testing-library/user-event'
import { getResponse } from 'msw'
import { answerFetch } from '../msw/browser.ts'
import { holdTime, states } from './states.ts'

// Shows the whole app in one state. It sets the backend and the address before frame.html starts the app.
const number = Number(new URLSearchParams(window.location.search).get('state'))
const state = states[number]
if (state === undefined) throw new Error(`There is no state ${number}`)

// Otherwise the frames take the focus from each other, and the gallery scrolls to each of them.
HTMLElement.prototype.focus = () => {}
// Each frame is a browser of its own. Otherwise a failed sign-out in one frame makes the others forget.
Reflect.deleteProperty(globalThis, 'BroadcastChannel')

const handlers = state.backend()
answerFetch((request) => getResponse(handlers, request))
holdTime()
window.history.replaceState(null, '', state.address)

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
