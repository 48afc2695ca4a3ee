import { expect, type Page } from '@playwright/test'
import { providerIdOf } from '../../contract/provider-names.ts'
import { createProviders } from '../../server/providers/create.ts'
import { addressIds, mainSettingOf, registry } from '../../server/providers/registry.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { expectFine } from './axe.ts'
import { test as base, button, connect, openTab, saveRules, withServer } from './server.ts'

// Teams asks for the channel's name, and does not say whether it has posted a message. Discord needs no name, and says so.
// Pipedrive's story is with Google Chat.
const chats = ['Microsoft Teams', 'Discord']
const providers = createProviders(parseEnv({}).addressesAt(1).providers)

/** What has the focus, by its name. */
const focused = (page: Page) =>
  page.evaluate(() => {
    const { activeElement } = document
    const labels = activeElement instanceof HTMLInputElement ? activeElement.labels : undefined
    return (labels?.[0] ?? activeElement)?.textContent?.trim()
  })

// axe looks at each of several states.
base.describe.configure({ timeout: 180_000 })

for (const name of chats) {
  const id = addressIds.find((id) => id === providerIdOf(name))
  if (id === undefined) throw new Error(`${name} has no page for an address.`)
  const test = base.extend({
    server: [
      // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
      async ({}, use) =>
        await withServer(use, {
          [mainSettingOf(id)]: registry[id].origins.join() || 'https://chat.example',
        }),
      { scope: 'test', timeout: 60_000 },
    ],
  })
  test.use({ viewport: { width: 320, height: 640 } })

  test(`${name} is connected by an address with the keyboard, tells of a deal, breaks, works again, and is forgotten`, {
    tag: '@all',
  }, async ({ page, context }) => {
    // As if the dashboard had been built for this chat. A build of its own takes seconds.
    let isChanged = false
    await context.route('**/assets/index-*.js', async (route) => {
      const answer = await route.fetch()
      const text = await answer.text()
      const body = text.replace('{id:`slack`,name:`Slack`}', JSON.stringify({ id, name }))
      isChanged ||= body !== text
      await route.fulfill({ response: answer, body })
    })
    const move = async (deal: number, stage: string) => {
      const form = { change: 'stage', stage }
      await expect(await page.request.post(`/sandbox/hubspot/deals/${deal}`, { form })).toBeOK()
    }
    await page.goto('/')
    expect(isChanged).toBe(true)
    await connect(page, 'HubSpot')

    await button(page, `Connect ${name}`).click()
    await expect(page.getByRole('heading', { name: `Connect ${name}` })).toBeVisible()
    await expectFine(page)
    const asksForName = (await page.getByLabel('Name of the channel').count()) > 0
    const stops = ['Webhook address', ...(asksForName ? ['Name of the channel (optional)'] : [])]
    for (const stop of ['Use the stand-in', ...stops, 'Connect', 'Cancel']) {
      await page.keyboard.press('Tab')
      expect(await focused(page)).toBe(stop)
    }
    await page.getByLabel('Webhook address').focus()
    await page.keyboard.type('https://chat.example/not <it>')
    await page.keyboard.press('Enter')
    await expect(page.getByRole('alert')).toBeInViewport({ ratio: 1 })
    await expect(page).toHaveTitle(`Error: Connect ${name} – Dealbell`)
    const field = page.getByLabel('Webhook address')
    await expect(field).toBeFocused()
    await expect(field).toHaveValue('https://chat.example/not <it>')
    await expect(field).toHaveAccessibleDescription(/^Dealbell cannot use this address: /)
    await page.emulateMedia({ colorScheme: 'dark' })
    await expectFine(page)
    // An address that was typed so far does not matter.
    await field.fill('')
    await button(page, 'Cancel').press('Enter')
    await expect(page).not.toHaveURL(/address/)
    await page.goto('/')

    await button(page, `Connect ${name}`).click()
    await button(page, 'Use the stand-in').press('Enter')
    await expect(button(page, `Disconnect ${name}`)).toBeVisible()
    await saveRules(page, 'a deal is signed or closed')

    await move(9001, 'closedwon')
    const chat = await openTab(page, 'Open sales (stand-in)')
    // Above it, some chats show the text of the notification.
    await expect(chat.getByText('Acme renewal was won').last()).toBeVisible()
    const deal = chat.getByRole('link', { name: 'Acme renewal' })
    await expect(deal).toHaveAttribute('href', /\/sandbox\/hubspot\/.*\/9001$/)
    if (asksForName) await expect(chat.getByText('Dealbell is connected')).toHaveCount(1)
    await chat.emulateMedia({ colorScheme: 'dark' })
    await expectFine(chat)

    await page.getByRole('link', { name: 'Activity' }).click()
    const row = page.getByRole('listitem').filter({ hasText: 'Acme renewal' })
    await expect(row).toContainText('Sent to sales (stand-in)')
    const doubt = `${name} has accepted it, but does not say whether it has posted it`
    if (providers[id].confirms) await expect(row).not.toContainText(doubt)
    else await expect(row).toContainText(doubt)

    await button(chat, 'Delete the webhook').click()
    await expect(button(chat, 'Restore the webhook')).toBeVisible()
    await move(9002, 'closedlost')
    await expect(page.getByRole('link', { name: 'Failed 1' })).toBeVisible()
    await page.goto('/')
    const why = page.getByText(new RegExp(`^Not connected since .*: ${name} says that .*deleted`))
    await expect(why).toBeVisible()

    await button(chat, 'Restore the webhook').click()
    await expect(button(chat, 'Delete the webhook')).toBeVisible()
    await button(page, `Connect ${name}`).click()
    await button(page, 'Use the stand-in').click()
    await button(page, 'Send all again').click()
    await expect(chat.getByText('Globex pilot was lost').last()).toBeVisible()
    await button(page, `Disconnect ${name}`).click()
    await expect(button(page, `Connect ${name}`)).toBeVisible()
  })
}
