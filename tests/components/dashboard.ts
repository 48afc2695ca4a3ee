import { screen } from '@testing-library/react'
import { dashboardCalls } from '../e2e/dashboard-calls.ts'
import { hold, type renderApp, withStatus } from '../render.tsx'

// What the stories find and say on the dashboard.

export const saved = '✅ Rules saved successfully!'
export const failed = '❌ Failed to save rules, try again.'
export const refused = '❌ Please connect both HubSpot and Slack before saving rules.'

/** What `calls()` lists, in order of the alphabet, when the dashboard opens. */
export const openingCalls = [...dashboardCalls, '/health'].map((path) => `GET ${path}`)

const box = (name: string | RegExp) => screen.findByRole('checkbox', { name })
export const stageBox = () => box('Notify me when a deal stage changes')
export const closedBox = () => box(/signed or closed/)
export const button = (name: string) => screen.findByRole('button', { name })
export const saveButton = () => screen.getByRole('button', { name: 'Save' })

/** Opens the menu at the end of the header, and returns one of its buttons. */
export async function accountItem(user: ReturnType<typeof renderApp>['user'], name: string) {
  if (screen.queryByRole('button', { name }) === null) await user.click(await button('Account'))
  return button(name)
}
export const signedOut = 'Signed out. Connect HubSpot to find your settings again.'

export const rulesPath = '*/api/notifications/rules'

export async function tickAndSave(user: ReturnType<typeof renderApp>['user']): Promise<void> {
  await user.click(await stageBox())
  await user.click(saveButton())
}

/** Holds the answer of a save until the returned function is called. The backend stores nothing. */
export const holdSaving = () => hold('post', rulesPath, withStatus(204))
