import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { errorAnswer } from '../http/errors.ts'
import { standInPolicy } from '../http/safety-headers.ts'
import type { Addresses } from '../settings.ts'
import { createContactForm } from './contact-form.ts'
import { createStandInHubspot } from './hubspot.ts'
import { createStandInSlack } from './slack.ts'

/** The stand-ins of those services for which no client id is set, and the contact form's. */
export function createSandbox({ appUrl, hubspot, slack }: Addresses): Hono {
  const sandbox = new Hono()
  const stylesheet = readFileSync(join(import.meta.dirname, 'style.css'), 'utf8')
  const pagePolicy = standInPolicy(appUrl, { inFrame: false })
  const framePolicy = standInPolicy(appUrl, { inFrame: true })

  sandbox.use(
    bodyLimit({
      maxSize: 64 * 1024,
      onError: (c) => errorAnswer(c, 413, 'too_large', 'The body must not be over 64 KiB.'),
    }),
  )
  sandbox.use(async (c, next) => {
    await next()
    if (!c.res.headers.get('Content-Type')?.startsWith('text/html')) return
    const framed = c.req.path.startsWith('/sandbox/contact-form')
    c.res.headers.set('Content-Security-Policy', framed ? framePolicy : pagePolicy)
  })

  sandbox.get('/style.css', (c) =>
    c.body(stylesheet, 200, {
      // The contact form's frame has no origin of its own, so that even here it is a stranger.
      'Access-Control-Allow-Origin': '*',
      'Content-Type': 'text/css; charset=utf-8',
      'Cache-Control': 'no-cache',
    }),
  )
  sandbox.route('/contact-form', createContactForm())
  if (hubspot.standIn) {
    sandbox.route('/hubspot', createStandInHubspot({ settings: hubspot, appUrl }))
  }
  if (slack.standIn) {
    sandbox.route('/slack', createStandInSlack({ settings: slack, appUrl }))
  }
  return sandbox
}
