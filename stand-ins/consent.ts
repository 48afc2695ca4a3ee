import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import type { Html } from '../server/http/html-page.ts'
import type { ProviderSettings } from '../server/providers/calls.ts'
import { formFields, type Site, standInPage } from './page.ts'

type Fields = Readonly<Record<string, string>>

/** The consent page of a stand-in, and the redirect after a person has allowed or denied access. */
export function createConsent({
  site,
  path,
  provider,
  settings,
  redirectUri,
  problem,
  page,
  code,
  denied = 'access_denied',
  whyDenied,
}: {
  site: Site
  path: string
  /** The name of the provider. */
  provider: string
  settings: ProviderSettings
  redirectUri: string
  /** What else is wrong with a request, in words; undefined if it is right. */
  problem?: (request: Fields) => string | undefined
  page: () => {
    account: string
    /** The permissions that Dealbell asks for, in words. */
    wishes: readonly string[]
    /** Fields of the form. */
    children?: Html
  }
  /** Issues an authorization code. */
  code: (request: Fields) => string
  denied?: string
  whyDenied?: string
}): Hono {
  /** The answer to a request that must not be redirected; undefined if the request is right. */
  function refused(c: Context, request: Fields): Response | Promise<Response> | undefined {
    const reason =
      request.client_id !== settings.clientId
        ? 'There is no app with this client ID.'
        : request.redirect_uri !== redirectUri
          ? `The redirect URL is not registered for this app. It has ${redirectUri}.`
          : problem?.(request)
    if (reason === undefined) return undefined
    const refusal = standInPage({
      site,
      title: `${provider} cannot show its consent page`,
      notice: `This is not ${provider}, but it refuses what ${provider} would refuse.`,
      children: html`<p>${reason}</p>`,
    })
    return c.html(refusal, 400)
  }

  return new Hono()
    .get(path, (c) => {
      const request = c.req.query()
      const { account, wishes, children } = page()
      const consent = standInPage({
        site,
        title: `Connect Dealbell to ${provider}`,
        notice: `This is not ${provider}. It plays ${provider} on this machine, so that Dealbell can be tried without an account.`,
        children: html`
          <p>Dealbell would like to connect to the account <strong><bdi>${account}</bdi></strong> and to:</p>
          <ul>${wishes.map((wish) => html`<li>${wish}</li>`)}</ul>
          <form method="post">
            ${Object.entries(request).map(
              ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
            )}
            ${children ?? ''}
            <div class="actions">
              <button name="answer" value="allow">Allow</button>
              <button name="answer" value="deny" class="secondary">Deny</button>
            </div>
          </form>`,
      })
      return refused(c, request) ?? c.html(consent)
    })
    .post(path, async (c) => {
      const request = await formFields(c)
      const refusal = refused(c, request)
      if (refusal !== undefined) return refusal
      const back = new URL(redirectUri)
      if (request.answer === 'allow') back.searchParams.set('code', code(request))
      else {
        back.searchParams.set('error', denied)
        if (whyDenied !== undefined) back.searchParams.set('error_description', whyDenied)
      }
      if (request.state) back.searchParams.set('state', request.state)
      return c.redirect(back.href, 303)
    })
}
