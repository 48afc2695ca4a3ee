import { Hono } from 'hono'
import type { StandInOptions } from '../page.ts'
import { StandInCodes } from '../tokens.ts'
import { type SlackAccount, StandInChannels } from './account.ts'
import { createSlackApi } from './api.ts'
import { createSlackPages } from './pages.ts'

/** A Slack with one workspace. */
export function createStandInSlack({ site, settings, appUrl }: StandInOptions): Hono {
  const account: SlackAccount = {
    site,
    settings,
    appUrl,
    list: '/sandbox/slack',
    codes: new StandInCodes(),
    channels: new StandInChannels(),
  }
  return new Hono().route('/', createSlackPages(account)).route('/', createSlackApi(account))
}
