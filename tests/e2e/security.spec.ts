import { expect } from '@playwright/test'
import { hostileForm } from './hostile-form.ts'
import { sharedTest as test } from './server.ts'
import { serve, serveBuild } from './site.ts'

/** Waits until the browser has reported all these violations, and removes them from the list. */
async function expectViolations(violations: string[], ...expected: (string | RegExp)[]) {
  for (const one of expected) {
    await expect.poll(() => violations.join('\n')).toMatch(one)
  }
  violations.splice(0)
}

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
    await expectViolations(violations, /trusted-types-sink/, /trusted-types trusted-types-policy/)
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
    await expectViolations(violations, /: frame-src /, /violates the following/)
  })
})

test('a hostile contact form cannot navigate the page, open dialogs or ask for camera or position', async ({
  page,
  context,
  violations,
}) => {
  // It builds a page.
  test.setTimeout(120_000)
  let dashboardUrl = ''
  const form = await serve((request, response) => {
    response.setHeader('Content-Type', 'text/html')
    response.end(
      request.url === '/form'
        ? hostileForm.replace('DASHBOARD', () => JSON.stringify(dashboardUrl))
        : '<title>Taken</title><h1>Taken over</h1>',
    )
  })
  const dashboard = await serveBuild({
    VITE_CONTACT_FORM_URL: `http://127.0.0.1:${form.port}/form`,
  })
  dashboardUrl = dashboard.url
  for (const origin of [dashboard.url, `http://127.0.0.1:${form.port}`]) {
    // The browser grants these to both origins, so only the page's own guards refuse.
    await context.grantPermissions(['camera', 'microphone', 'geolocation'], { origin })
  }
  const heard: string[] = []
  page.on('dialog', (dialog) => {
    heard.push(dialog.type())
    void dialog.dismiss()
  })
  page.on('download', () => heard.push('download'))
  await page.goto(`${dashboard.url}/contact`)
  const frame = page.frameLocator('iframe')
  await frame.getByRole('button', { name: 'Send' }).click()
  const report = async () => JSON.parse((await frame.locator('pre').textContent()) || '{}')
  // Each attempt reports when it ends, so wait for the whole report.
  await expect.poll(report).toEqual({
    'top.location': 'SecurityError',
    'top.replace': 'SecurityError',
    'parent.document': 'SecurityError',
    'open _top': 'null',
    open: 'null',
    alert: 'undefined',
    confirm: 'false',
    prompt: 'null',
    // A click or a submission never throws. The assertions below check that nothing came of it.
    'top-link': 'undefined',
    'new-link': 'undefined',
    download: 'undefined',
    'top-form': 'undefined',
    camera: 'NotAllowedError',
    microphone: 'NotAllowedError',
    position: '1',
    notification: 'denied',
    clipboard: 'NotAllowedError',
    fullscreen: 'TypeError',
    calls: 'TypeError',
  })
  await expect(page).toHaveURL(`${dashboard.url}/contact`)
  await expect(page.getByRole('heading', { name: 'Contact Support' })).toBeVisible()
  expect(context.pages()).toEqual([page])
  await expectViolations(
    violations,
    /camera is not allowed/,
    /microphone is not allowed/,
    /fullscreen is/,
  )

  // The form's beforeunload handler does not stop the user from leaving.
  await page.goto(`${dashboard.url}/`)
  expect(heard).toEqual([])
  form.close()
  dashboard.close()
})
