import { expect } from '@playwright/test'
import { sharedTest as test } from './server.ts'

test.describe('the page’s policy', () => {
  test('lets no text become HTML or script', async ({ page, violations }) => {
    await page.goto('/')
    const worked = await page.evaluate(() => {
      const attempts = [
        () => Object.assign(document.body, { innerHTML: '<img src=x onerror="window.got = 1">' }),
        () => document.body.insertAdjacentHTML('beforeend', '<b>x</b>'),
        () => Object.assign(document.createElement('script'), { src: 'https://evil.example/x.js' }),
        () => Object.assign(document.createElement('script'), { text: 'window.got = 1' }),
        () => Object.assign(document.createElement('iframe'), { srcdoc: '<p>x' }),
        // In a later task, because code that a debugger evaluates may call eval.
        () => setTimeout('window.got = 1'),
        () => {
          const { trustedTypes } = window as { trustedTypes?: { createPolicy(name: string): void } }
          trustedTypes?.createPolicy('mine')
        },
      ]
      return attempts.map(String).filter((_, index) => {
        try {
          attempts[index]?.()
          return true
        } catch {
          return false
        }
      })
    })
    expect(worked).toEqual([])
    await expect
      .poll(() => violations.splice(0))
      .toEqual([expect.stringContaining(`directive: "trusted-types 'none'"`)])
    expect(await page.evaluate(() => 'got' in window)).toBe(false)
  })

  test('allows the form’s frame, and that of no other site', async ({ page, violations }) => {
    await page.goto('/contact')
    await expect(page.frameLocator('iframe').getByRole('button', { name: 'Send' })).toBeVisible()
    // The frame has no origin, and still loads the stand-in's style sheet.
    const body = page.frameLocator('iframe[src*="contact-form"]').locator('body')
    await expect(body).not.toHaveCSS('margin', '8px')
    await page.evaluate(() => {
      const frame = document.createElement('iframe')
      frame.src = 'https://evil.example/form'
      document.body.append(frame)
    })
    await expect
      .poll(() => violations.splice(0))
      .toEqual([expect.stringContaining(`directive: "frame-src 'self'"`)])
  })
})
