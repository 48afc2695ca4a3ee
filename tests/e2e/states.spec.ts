import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from '@playwright/test'
import { createServer } from 'vite'
import { states } from '../states/states.ts'
import { test } from './server.ts'
import { expectState } from './show-state.ts'

test('/states shows every state during development', { tag: '@all' }, async ({ page, server }) => {
  // Two dozen apps load one after the other, without a build.
  test.setTimeout(300_000)
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  // The backend serves the contact form, and MSW's handlers cannot answer for a frame.
  const proxy = { '/sandbox': { target: server.url, changeOrigin: false } }
  const vite = await createServer({ server: { port: 0, hmr: false, proxy }, logLevel: 'error' })
  try {
    await vite.listen()
    const address = vite.httpServer?.address()
    if (typeof address !== 'object' || address === null) throw new Error('Vite has no port')
    await page.goto(`http://localhost:${address.port}/states`)
    await expect(page.getByRole('heading', { name: 'Pieces' })).toBeVisible()
    // Vite bundles the dependencies when the first frame asks for them.
    const first = page.frameLocator('iframe').first().getByRole('status').first()
    await expect(first).toBeVisible({ timeout: 120_000 })
    for (const state of states) {
      const frame = page.getByTitle(state.name, { exact: true })
      await frame.scrollIntoViewIfNeeded()
      await expectState(frame.contentFrame(), state)
    }
    expect(errors).toEqual([])
  } finally {
    await vite.close()
  }
})

test('the build contains nothing of /states', { tag: '@all' }, async ({ page }) => {
  const dist = join(import.meta.dirname, '../../dist')
  const files = await readdir(dist, { recursive: true })
  expect(files.filter((path) => /states|mock|worker|frame/i.test(path))).toEqual([])
  for (const path of files.filter((path) => /\.(js|css|html)$/.test(path))) {
    const text = await readFile(join(dist, path), 'utf8')
    expect(text, path).not.toMatch(/mockServiceWorker|setupWorker|\/states\b|Saving, unsaved/)
  }
  await page.goto('/states')
  await expect(page.getByText('Something went wrong. Please try again later.')).toBeVisible()
})
