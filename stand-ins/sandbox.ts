import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { errorAnswer } from '../server/http/errors.ts'
import { standInPolicy } from '../server/http/safety-headers.ts'
import type { ProviderSettings } from '../server/providers/calls.ts'
import { type ProviderId, providerIds } from '../server/providers/registry.ts'
import type { Addresses } from '../server/settings/settings.ts'
import { createContactForm } from './contact-form.ts'
import { createStandInHubspot } from './hubspot/hubspot.ts'
import { createStandInSlack } from './slack/slack.ts'

interface StandInOptions {
  settings: ProviderSettings
  appUrl: string
  apiUrl: string
}

const standIns: Record<ProviderId, (options: StandInOptions) => Hono> = {
  hubspot: createStandInHubspot,
  slack: createStandInSlack,
}

/** The stand-ins of the providers without a client id, and of the contact form. */
export function createSandbox({ appUrl, apiUrl, providers }: Addresses): Hono {
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
      // The contact form's frame has no origin, so this is another origin for it.
      'Access-Control-Allow-Origin': '*',
      'Content-Type': 'text/css; charset=utf-8',
      'Cache-Control': 'no-cache',
    }),
  )
  sandbox.route('/contact-form', createContactForm())
  for (const id of providerIds) {
    const settings = providers[id]
    if (!settings.standIn) continue
    sandbox.route(`/${id}`, standIns[id]({ settings, appUrl, apiUrl }))
  }
  return sandbox
}
