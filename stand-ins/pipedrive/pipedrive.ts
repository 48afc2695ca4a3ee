import { Hono } from 'hono'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import type { StandInOptions } from '../page.ts'
import { createPipedriveApi } from './api.ts'
import { createUsers, DailyBudget, type PipedriveCompany, StandInDeals } from './company.ts'
import { createPipedriveOAuth } from './oauth.ts'
import { createDealsPage } from './pages.ts'
import { StandInWebhooks } from './webhooks.ts'

/** A Pipedrive with one company of two users. */
export function createStandInPipedrive(options: StandInOptions): Hono {
  const users = createUsers(options.settings.clientSecret)
  const company: PipedriveCompany = {
    ...options,
    redirectUri: `${options.appUrl}${pathOf(navigations.callbackPage, 'pipedrive')}`,
    list: '/sandbox/pipedrive/deals',
    users,
    deals: new StandInDeals(users),
    budget: new DailyBudget(),
  }
  const webhooks = new StandInWebhooks(company)
  const oauth = createPipedriveOAuth(company, (user) => {
    user.tokens.revokeAll()
    for (const webhook of webhooks.of(user)) webhooks.delete(webhook)
  })
  return new Hono()
    .route('/', createDealsPage(company, webhooks))
    .route('/', oauth)
    .route('/api', createPipedriveApi(company, webhooks))
}
