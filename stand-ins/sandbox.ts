import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Handler, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { errorAnswer } from '../server/http/errors.ts'
import { toStandIn } from '../server/http/origin.ts'
import { standInPolicy } from '../server/http/safety-headers.ts'
import {
  type AddressId,
  isAddressId,
  type OAuthId,
  providerIds,
  standInPages,
} from '../server/providers/registry.ts'
import { standInPaths } from '../server/settings/providers.ts'
import type { Addresses } from '../server/settings/settings.ts'
import { createStandInByAddress, type StandInChat } from './by-address.ts'
import { createContactForm } from './contact-form.ts'
import { standInDiscord } from './discord/discord.ts'
import { standInGoogleChat } from './google-chat/google-chat.ts'
import { createStandInHubspot } from './hubspot/hubspot.ts'
import { standInMattermost } from './mattermost/mattermost.ts'
import { standInTeams } from './microsoft-teams/microsoft-teams.ts'
import type { StandInOptions } from './page.ts'
import { createStandInPipedrive } from './pipedrive/pipedrive.ts'
import { createStandInSlack } from './slack/slack.ts'

const oauth: Record<OAuthId, (options: StandInOptions) => Hono> = {
  hubspot: createStandInHubspot,
  pipedrive: createStandInPipedrive,
  slack: createStandInSlack,
}

const byAddress: Record<AddressId, StandInChat> = {
  discord: standInDiscord,
  'microsoft-teams': standInTeams,
  'google-chat': standInGoogleChat,
  mattermost: standInMattermost,
}

/** The stand-ins of the providers without a client id, and of the contact form. */
export function createSandbox({ appUrl, apiUrl, providers }: Addresses): Hono {
  const sandbox = new Hono()
  const pages = standInPages(providers)
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
    // A page with a script has a policy of its own.
    if (c.res.headers.has('Content-Security-Policy')) return
    const framed = c.req.path.startsWith('/sandbox/contact-form')
    c.res.headers.set('Content-Security-Policy', framed ? framePolicy : pagePolicy)
  })

  // The contact form's frame has no origin, so this is another origin for it.
  const anyOrigin = { 'Access-Control-Allow-Origin': '*' }
  sandbox.get('/style.css', file('style.css', 'text/css; charset=utf-8', anyOrigin))
  for (const script of ['channel.js', 'deals.js']) {
    sandbox.get(`/${script}`, file(script, 'text/javascript; charset=utf-8'))
  }
  if ('contact-form' in standInPaths({ appUrl, providers })) {
    sandbox.route('/contact-form', createContactForm())
  }
  for (const id of providerIds.filter((id) => providers[id].standIn)) {
    const site = { id, appUrl, pages }
    sandbox.use(`/${id}/*`, toStandIn(apiUrl), async (c, next) => {
      await next()
      // With `no-referrer`, browsers would not say where a form is from.
      c.res.headers.set('Referrer-Policy', 'same-origin')
    })
    sandbox.get(`/${id}/icon.svg`, file(`${id}/icon.svg`, 'image/svg+xml'))
    sandbox.route(
      `/${id}`,
      isAddressId(id)
        ? createStandInByAddress(site, byAddress[id])
        : oauth[id]({ site, settings: providers[id], appUrl, apiUrl }),
    )
  }
  return sandbox
}

/** Answers with a file of this folder. */
function file(name: string, type: string, headers: Record<string, string> = {}): Handler {
  const body = readFileSync(join(import.meta.dirname, name), 'utf8')
  const all = { 'Content-Type': type, 'Cache-Control': 'no-cache', ...headers }
  return (c) => c.body(body, 200, all)
}
