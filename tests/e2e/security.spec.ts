import { expect, type Page } from '@playwright/test'
import { stateOf } from '../states/states.ts'
import { connect, sharedTest, test } from './server.ts'
import { showState } from './show-state.ts'
import { serve, serveBuild } from './site.ts'

/** Leaves a test to `npm run test:all`. */
const inAllOnly = { tag: '@all' } as const

/** Waits until the browser has reported all these violations, and removes them from the list. */
async function expectViolations(violations: string[], ...expected: (string | RegExp)[]) {
  for (const one of expected) {
    await expect.poll(() => violations.join('\n')).toMatch(one)
  }
  violations.splice(0)
}

test.describe('the page’s policy', () => {
  sharedTest('reports each violation to these tests', async ({ page, violations }) => {
    await page.goto('/')
    await page.evaluate(() => document.body.setAttribute('style', 'color: red'))
    await expectViolations(
      violations,
      /: style-src-attr inline/,
      /violates the following .*style-src/,
    )
  })

  sharedTest('lets no text become HTML or script', async ({ page, violations }) => {
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

  sharedTest(
    'allows no permission of the browser',
    async ({ page, context, server, violations }) => {
      await context.grantPermissions(['camera', 'microphone', 'geolocation'], {
        origin: server.url,
      })
      await page.goto('/')
      const outcomes = await page.evaluate(async () => {
        const { mediaDevices, geolocation, clipboard } = navigator
        const attempts = [
          mediaDevices.getUserMedia({ video: true }),
          mediaDevices.getDisplayMedia(),
          new Promise((resolve, reject) => geolocation.getCurrentPosition(resolve, reject)),
          clipboard.readText(),
          document.documentElement.requestFullscreen(),
        ]
        return (await Promise.allSettled(attempts)).map(({ status }) => status)
      })
      expect(outcomes).toEqual(Array(5).fill('rejected'))
      await expectViolations(violations, /camera is not allowed/, /fullscreen is not allowed/)
    },
  )

  sharedTest(
    'allows the form’s frame at /contact, and no frame anywhere else',
    async ({ page, violations }) => {
      await page.goto('/')
      await page.evaluate(() => {
        const frame = document.createElement('iframe')
        frame.src = '/sandbox/contact-form'
        document.body.append(frame)
      })
      await expectViolations(violations, /: frame-src /, /violates the following/)
      await page.goto('/contact')
      await expect(page.frameLocator('iframe').getByRole('button', { name: 'Send' })).toBeVisible()
      // The frame has no origin, and still loads the stand-in's style sheet.
      const frame = page.frames().find((one) => one.url().includes('contact-form'))
      expect(await frame?.evaluate(() => getComputedStyle(document.body).margin)).not.toBe('8px')
    },
  )

  sharedTest('shows the form by every way to /contact', inAllOnly, async ({ page }) => {
    const form = page.frameLocator('iframe').getByRole('button', { name: 'Send' })
    await page.goto('/contact')
    await expect(form).toBeVisible()
    await page
      .getByRole('link', { name: /dashboard|Dealbell/ })
      .first()
      .click()
    await expect(page.getByRole('heading', { name: 'Connections' })).toBeVisible()
    await page.goBack()
    await expect(form).toBeVisible()

    // A reload of the dashboard loads a document without frame-src. Back reuses that document.
    await page.goForward()
    await page.reload()
    await expect(page.getByRole('heading', { name: 'Connections' })).toBeVisible()
    await page.goBack()
    await expect(page).toHaveURL('/contact')
    await expect(form).toBeVisible()
  })
})

// What a hostile form tries. It reports the outcome of each attempt in its own page.
const hostileForm = `<!doctype html><title>Form</title>
<button>Send</button><pre></pre>
<a id="top-link" target="_top" href="/taken">x</a>
<a id="new-link" target="_blank" href="/taken">x</a>
<a id="download" download="x.txt" href="data:text/plain,x">x</a>
<form id="top-form" target="_top" action="/taken"></form>
<script>
const outcomes = {}
const report = (name, outcome) => {
  outcomes[name] = outcome
  document.querySelector('pre').textContent = JSON.stringify(outcomes)
}
const attempt = (name, act) => {
  try { report(name, String(act())) } catch (error) { report(name, error.name) }
}
const later = (name, promise) =>
  promise.then((value) => report(name, String(value)), (error) => report(name, error.name))
addEventListener('beforeunload', (event) => { event.preventDefault(); event.returnValue = 'Stay!' })
document.querySelector('button').onclick = () => {
  attempt('top.location', () => { top.location = location.origin + '/taken' })
  attempt('top.replace', () => top.location.replace(location.origin + '/taken'))
  attempt('parent.document', () => parent.document.title)
  attempt('open _top', () => open('/taken', '_top'))
  attempt('open', () => open('/taken'))
  attempt('alert', () => alert('Your session has ended'))
  attempt('confirm', () => confirm('Your password?'))
  attempt('prompt', () => prompt('Your password?'))
  for (const id of ['top-link', 'new-link', 'download']) attempt(id, () => document.getElementById(id).click())
  attempt('top-form', () => document.getElementById('top-form').submit())
  later('camera', navigator.mediaDevices.getUserMedia({ video: true }))
  later('microphone', navigator.mediaDevices.getUserMedia({ audio: true }))
  later('position', new Promise((resolve) =>
    navigator.geolocation.getCurrentPosition(() => resolve('allowed'), (error) => resolve(error.code))))
  later('notification', Notification.requestPermission())
  later('clipboard', navigator.clipboard.readText())
  later('fullscreen', document.body.requestFullscreen())
  later('calls', fetch(document.referrer || DASHBOARD + '/health', { credentials: 'include' }))
  parent.postMessage({ type: 'navigate', href: location.origin + '/taken' }, '*')
}
</script>`

test.describe('a file that was changed on its way', () => {
  sharedTest('is not run, whichever script it is', async ({ context, request, violations }) => {
    const html = await (await request.get('/')).text()
    const tags = [...html.matchAll(/<[^>]*\/assets\/([\w.-]+)-[\w-]{8}\.js"[^>]*>/g)]
    // The page may name a script for several addresses. The router also accepts a trailing slash.
    const scripts = tags.map(([tag, name]) => {
      const pattern = /data-at="([^"|]*)/.exec(tag)?.[1] ?? '/'
      return [name, `${pattern.replace('[^/]+', 'hubspot')}/?code=x`.replace('//', '/')] as const
    })
    expect(scripts.length).toBeGreaterThan(10)
    await Promise.all(
      scripts.map(async ([name, address]) => {
        const page = await context.newPage()
        await page.route(`**/assets/${name}-*.js`, async (route) => {
          const answer = await route.fetch()
          const body = `document.documentElement.dataset.taken = 'yes';${await answer.text()}`
          await route.fulfill({ response: answer, body })
        })
        const refused = page.waitForEvent('console', (message) => /integrity/.test(message.text()))
        await page.goto(address)
        expect((await refused).text()).toContain(`/assets/${name}-`)
        // The router tries once more, and fails again.
        await page.waitForLoadState('networkidle')
        await expect(page.locator('html')).not.toHaveAttribute('data-taken')
        await page.unrouteAll({ behavior: 'ignoreErrors' })
        await page.close()
      }),
    )
    expect(violations.splice(0).filter((violation) => !/integrity/.test(violation))).toEqual([])
  })

  sharedTest('is not applied: the style sheet', async ({ page, violations }) => {
    await page.route('**/assets/*.css', async (route) => {
      const answer = await route.fetch()
      await route.fulfill({ response: answer, body: 'body { display: none }' })
    })
    await page.goto('/')
    await expectViolations(violations, /integrity/)
    await expect(page.getByRole('heading', { name: 'Connections' })).toBeVisible()
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.close()
    violations.splice(0)
  })

  sharedTest(
    'is not applied: the late styles. What waits for them appears',
    async ({ page, context, violations }) => {
      await context.route('**/assets/late-*.css', async (route) => {
        const answer = await route.fetch()
        await route.fulfill({ response: answer, body: 'body { display: none }' })
      })
      for (const name of [
        'What each rule has sent or would have sent',
        'Activity: messages in every state',
      ]) {
        await showState(page, stateOf(name))
        await expectViolations(violations, /integrity/)
      }
      await context.unrouteAll({ behavior: 'ignoreErrors' })
    },
  )
})

test.describe('a contact form that turned hostile', () => {
  test.describe.configure({ mode: 'serial' })
  let form: Awaited<ReturnType<typeof serve>>
  let dashboard: Awaited<ReturnType<typeof serve>>
  let dashboardUrl: string
  let formUrl: string

  sharedTest.beforeAll(async () => {
    form = await serve((request, response) => {
      response.setHeader('Content-Type', 'text/html')
      response.end(
        request.url === '/form'
          ? hostileForm.replace('DASHBOARD', () => JSON.stringify(dashboardUrl))
          : '<title>Taken</title><h1>Taken over</h1>',
      )
    })
    formUrl = `http://127.0.0.1:${form.port}/form`
    dashboard = await serveBuild({ VITE_CONTACT_FORM_URL: formUrl })
    dashboardUrl = dashboard.url
  })
  sharedTest.afterAll(() => {
    form.close()
    dashboard.close()
  })

  sharedTest(
    'cannot navigate the page, open dialogs or ask for camera or position',
    async ({ page, context, violations }) => {
      for (const origin of [dashboardUrl, new URL(formUrl).origin]) {
        // The browser grants these to both origins, so only the page's own guards refuse.
        await context.grantPermissions(['camera', 'microphone', 'geolocation'], { origin })
      }
      const heard: string[] = []
      page.on('dialog', (dialog) => {
        heard.push(dialog.type())
        void dialog.dismiss()
      })
      page.on('download', () => heard.push('download'))
      await page.goto(`${dashboardUrl}/contact`)
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
      await expect(page).toHaveURL(`${dashboardUrl}/contact`)
      await expect(page.getByRole('heading', { name: 'Contact Support' })).toBeVisible()
      expect(context.pages()).toEqual([page])
      await expectViolations(
        violations,
        /camera is not allowed/,
        /microphone is not allowed/,
        /fullscreen is/,
      )

      // The form's beforeunload handler does not stop the user from leaving.
      await page.goto(`${dashboardUrl}/`)
      expect(heard).toEqual([])
    },
  )

  sharedTest(
    'cannot leave its own site, not even within its frame',
    inAllOnly,
    async ({ page, violations }) => {
      const elsewhere = await serve((_request, response) => response.end('elsewhere'))
      await page.goto(`${dashboardUrl}/contact`)
      await expect(page.frameLocator('iframe').getByRole('button', { name: 'Send' })).toBeVisible()
      const frame = page.frames().find((one) => one.url() === formUrl)
      await frame?.evaluate((address) => {
        location.href = address
      }, `http://127.0.0.1:${elsewhere.port}/`)
      await expectViolations(violations, /: frame-src /, /violates the following/)
      await expect(page.frameLocator('iframe').getByText('elsewhere')).toHaveCount(0)
      await expect(page.getByRole('heading', { name: 'Contact Support' })).toBeVisible()
      elsewhere.close()
    },
  )

  sharedTest('cannot send the page back', inAllOnly, async ({ page, context }) => {
    await page.goto(`${dashboardUrl}/nowhere`)
    await page.goto(`${dashboardUrl}/contact`)
    await expect(page.frameLocator('iframe').getByRole('button', { name: 'Send' })).toBeVisible()
    const frame = page.frames().find((one) => one.url() === formUrl)
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    await frame?.evaluate(() => history.back())
    await frame?.evaluate(() => history.go(-1))
    // A navigation of the first page would be over once this later one is.
    const other = await context.newPage()
    await other.goto(`${dashboardUrl}/nowhere`)
    expect(asked).not.toContain(`${dashboardUrl}/nowhere`)
    await expect(page).toHaveURL(`${dashboardUrl}/contact`)
  })
})

test.describe('another site', () => {
  /** What the session's user has. */
  const stateOf = ({ request }: Page, url: string) =>
    Promise.all(
      ['hubspot/status', 'slack/status', 'notifications/rules'].map(
        async (path): Promise<unknown> => (await request.get(`${url}/api/${path}`)).json(),
      ),
    )

  // Another port of localhost is the same site, so it gets the Strict cookie. tests/browsers attacks
  // from 127.0.0.1, which is another site.
  test(
    'changes nothing: by link, image, form, fetch or frame',
    inAllOnly,
    async ({ page, context, browser, server, violations }) => {
      await page.goto('/')
      await connect(page, 'HubSpot', 'Slack')
      await page.getByLabel('Notify me when a deal is signed or closed').check()
      await page.getByRole('button', { name: 'Save' }).click()
      await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()
      const cookies = await context.cookies()
      const target = server.url
      const before = await stateOf(page, target)
      expect(before).toMatchObject([
        { connected: true },
        { connected: true },
        { rules: ['deal-closed'] },
      ])

      // The attacker connects an account of his own, and keeps the code for the victim.
      const attacker = await browser.newContext()
      const own = await attacker.newPage()
      let grant = ''
      await own.route('**/hubspot/callback?*', async (route) => {
        grant = new URL(route.request().url()).search
        await route.abort()
      })
      await own.goto(target)
      await own.getByRole('button', { name: 'Connect HubSpot', exact: true }).click()
      await own.getByRole('button', { name: 'Allow' }).click()
      await expect.poll(() => grant).toContain('code=')
      await attacker.close()

      const site = await serve((_request, response) => {
        response.setHeader('Content-Type', 'text/html')
        response.end(`<!doctype html><title>Win a prize</title>
          <a href="${target}/api/hubspot/callback${grant}">call</a>
          <a href="${target}/hubspot/callback${grant}">page</a>
          <form id="rules" method="post" enctype="text/plain" action="${target}/api/notifications/rules">
            <input name='{"rules":[],"x":"' value='"}'></form>
          <form id="disconnect" method="post" action="${target}/api/slack/disconnect"></form>`)
      })
      const attack = `http://localhost:${site.port}/`

      // Without a click: images, frames and calls of every kind.
      const taken: string[] = []
      page.on('response', (response) => {
        const { origin, pathname } = new URL(response.url())
        if (pathname.startsWith('/api/') && origin === target && response.ok()) {
          taken.push(`${response.request().method()} ${pathname}`)
        }
      })
      await page.goto(attack)
      await page.evaluate(
        async ([target, grant]) => {
          const gone: Promise<unknown>[] = []
          const load = (element: HTMLImageElement | HTMLIFrameElement, src: string) => {
            const { promise, resolve } = Promise.withResolvers()
            element.onload = resolve
            element.onerror = resolve
            element.src = target + src
            document.body.append(element)
            gone.push(promise)
          }
          load(new Image(), `/api/hubspot/callback${grant}`)
          load(new Image(), '/api/slack/disconnect')
          load(document.createElement('iframe'), '/')
          load(document.createElement('iframe'), `/hubspot/callback${grant}`)
          const call = (path: string, init: RequestInit) =>
            gone.push(fetch(target + path, { credentials: 'include', ...init }).catch(() => {}))
          const body = '{"rules":[]}'
          const json = { 'Content-Type': 'application/json' }
          call(`/api/hubspot/callback${grant}`, {})
          call(`/api/hubspot/callback${grant}`, { mode: 'no-cors' })
          call('/api/notifications/rules', { method: 'POST', mode: 'no-cors', body })
          call('/api/notifications/rules', { method: 'POST', headers: json, body })
          call('/api/slack/disconnect', { method: 'DELETE' })
          call('/api/slack/disconnect', { method: 'POST', mode: 'no-cors' })
          await Promise.all(gone)
          navigator.sendBeacon(`${target}/api/notifications/rules`, body)
          // The other site cannot read an answer either.
          const read = await fetch(`${target}/api/notifications/rules`, {
            credentials: 'include',
          })
            .then((answer) => answer.text())
            .catch(() => 'refused')
          if (read !== 'refused') throw new Error(`The other site could read ${read}`)
        },
        [target, grant] as const,
      )
      const [, ...frames] = page.frames()
      expect(frames.map((frame) => frame.url())).not.toContain(`${target}/`)
      // The console reports that frame-ancestors refused the frames.
      violations.splice(0)
      expect(await stateOf(page, target)).toEqual(before)

      // By a link that the user clicks: to the call, and to the page that makes the call.
      for (const [link, shown] of [
        ['call', 'cross_site'],
        ['page', 'HubSpot connection failed'],
      ] as const) {
        await page.goto(attack)
        await page.getByText(link).click()
        await expect(page.getByText(shown)).toBeVisible()
        expect(await stateOf(page, target)).toEqual(before)
      }

      // By forms.
      for (const id of ['rules', 'disconnect']) {
        await page.goto(attack)
        const answered = page.waitForResponse((response) => response.url().startsWith(target))
        await page.evaluate((id) => document.querySelector<HTMLFormElement>(`#${id}`)?.submit(), id)
        expect((await answered).status()).toBeGreaterThanOrEqual(400)
        await page.waitForURL(`${target}/**`)
        expect(await stateOf(page, target)).toEqual(before)
      }

      // The backend accepted only reads, and the session is unchanged.
      const reads =
        /^GET \/api\/(hubspot\/status|slack\/status|notifications\/(rules|summary|preview))$/
      expect(taken.filter((call) => !reads.test(call))).toEqual([])
      const values = (list: typeof cookies) => list.map(({ name, value }) => `${name}=${value}`)
      expect(values(await context.cookies())).toEqual(values(cookies))
      site.close()
    },
  )

  sharedTest(
    'keeps no reference to a dashboard that it opened',
    inAllOnly,
    async ({ page, context, server }) => {
      const site = await serve((_request, response) => response.end('<title>Opener</title>'))
      await page.goto(`http://127.0.0.1:${site.port}/`)
      const opening = context.waitForEvent('page')
      await page.evaluate((url) => {
        Object.assign(window, { opened: window.open(url) })
      }, server.url)
      const dashboard = await opening
      await expect(dashboard.getByRole('heading', { name: 'Connections' })).toBeVisible()
      expect(await dashboard.evaluate(() => window.opener)).toBeNull()
      await expect
        .poll(() =>
          page.evaluate(() => 'opened' in window && (window.opened as Window | null)?.closed),
        )
        .toBe(true)
      site.close()
    },
  )
})
