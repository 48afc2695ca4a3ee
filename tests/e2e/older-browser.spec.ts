import { expect } from '@playwright/test'
import { sharedTest as test } from './server.ts'

const sentence = 'Dealbell needs Chrome or Edge 114, Firefox 128, Safari 17, or newer.'

test('a browser that is too old reads which ones are supported, whether the page runs in it or not', async ({
  page,
}) => {
  await page.goto('/')
  await expect(page.getByRole('heading', { name: 'Deal notifications' })).toBeVisible()
  await expect(page.getByText(sentence)).toBeHidden()

  // As in a browser that does not know the selector.
  await page.route('**/*.css', async (route) => {
    const answer = await route.fetch()
    const body = (await answer.text()).replaceAll('selector(:popover-open)', 'selector(:unknown)')
    await route.fulfill({ response: answer, body })
  })
  await page.reload()
  await expect(page.getByRole('heading', { name: 'Deal notifications' })).toBeVisible()
  await expect(page.getByText(sentence)).toBeVisible()

  await page.route('**/*.js', (route) => route.fulfill({ body: 'not the syntax of it' }))
  await page.reload()
  await expect(page.getByText(sentence)).toBeVisible()
})
