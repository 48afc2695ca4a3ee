import { Hono } from 'hono'
import type { ProviderSettings } from '../../server/providers/calls.ts'
import { StandInCodes } from '../tokens.ts'
import { type SlackAccount, StandInChannels } from './account.ts'
import { createSlackApi } from './api.ts'
import { createSlackPages } from './pages.ts'

/** A Slack with one workspace. */
export function createStandInSlack({
  settings,
  appUrl,
}: {
  settings: ProviderSettings
  appUrl: string
}): Hono {
  const account: SlackAccount = {
    settings,
    appUrl,
    list: `${appUrl}/sandbox/slack`,
    codes: new StandInCodes(),
    channels: new StandInChannels(),
  }
  return new Hono().route('/', createSlackPages(account)).route('/', createSlackApi(account))
}
