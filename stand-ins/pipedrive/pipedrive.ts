import { Hono } from 'hono'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import type { ProviderSettings } from '../../server/providers/calls.ts'
import type { Site } from '../page.ts'
import { createPipedriveApi } from './api.ts'
import { createUsers, type PipedriveCompany, StandInDeals } from './company.ts'
import { DailyBudget } from './limits.ts'
import { createPipedriveOAuth } from './oauth.ts'
import { createDealsPage } from './pages.ts'
import { StandInWebhooks } from './webhooks.ts'

/** A Pipedrive with one company of two users. */
export function createStandInPipedrive({
  site,
  settings,
  appUrl,
  apiUrl,
}: {
  site: Site
  settings: ProviderSettings
  appUrl: string
  apiUrl: string
}): Hono {
  const users = createUsers(settings.clientSecret)
  const company: PipedriveCompany = {
    site,
    settings,
    apiUrl,
    redirectUri: `${appUrl}${pathOf(navigations.callbackPage, 'pipedrive')}`,
    list: '/sandbox/pipedrive/deals',
    users,
    deals: new StandInDeals(users),
  }
  const webhooks = new StandInWebhooks(users, apiUrl, settings)
  const budget = new DailyBudget()
  const oauth = createPipedriveOAuth(company, (user) => {
    user.tokens.revokeAll()
    for (const { id } of webhooks.of(user)) webhooks.delete(id)
  })
  return new Hono()
    .route('/', createDealsPage(company, webhooks, budget))
    .route('/', oauth)
    .route('/api', createPipedriveApi(company, webhooks, budget))
}
