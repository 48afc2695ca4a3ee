import { screen } from '@testing-library/react'
import { expect, test } from 'vitest'
import { renderApp, startBackend } from '../render.tsx'

test('a person connects nothing, ticks a rule and is told to connect', async () => {
  const { requests } = startBackend()
  const { user } = renderApp('/')
  expect(await screen.findByText('Connections required')).toBeVisible()
  await user.click(screen.getByRole('checkbox', { name: 'Notify me when a deal stage changes' }))
  await user.click(screen.getByRole('button', { name: 'Save' }))
  expect(
    screen.getByText('❌ Please connect both HubSpot and Slack before saving rules.'),
  ).toBeVisible()
  console.log(requests)
})
