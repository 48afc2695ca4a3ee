import { Hono } from 'hono'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import type { StandInOptions } from '../page.ts'
import { createPipedriveApi } from './api.ts'
import { createUsers, DailyBudget, type PipedriveCompany, StandInDeals } from './company.ts'
import { createPipedriveOAuth } from './oauth.ts'
import { createPipedrivePages } from './pages.ts'
import { StandInWebhooks } from './webhooks.ts'

/** A Pipedrive with one company of two users. */
export function createStandInPipedrive(options: StandInOptions): Hono {
  const users = createUsers(options.settings.clientSecret)
  const company: PipedriveCompany = {
    ...options,
    about: {
      company_id: 5_300_001,
      company_name: 'Acme (stand-in)',
      company_domain: 'acme-stand-in',
    },
    redirectUri: `${options.appUrl}${pathOf(navigations.callbackPage, 'pipedrive')}`,
    list: '/sandbox/pipedrive/deals',
    users,
    deals: new StandInDeals(users),
    budget: new DailyBudget(),
  }
  const webhooks = new StandInWebhooks(company)
  const oauth = createPipedriveOAuth(company, (user) => {
    user.tokens.revokeAll()
    for (const { id } of webhooks.of(user)) webhooks.all.delete(id)
  })
  return new Hono()
    .route('/', createPipedrivePages(company, webhooks))
    .route('/', oauth)
    .route('/api', createPipedriveApi(company, webhooks))
}
