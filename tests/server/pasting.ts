import { connections } from '../../server/database/schema.ts'
import { openSecrets } from '../../server/people/connections.ts'
import { type AddressSettings, defaultTimeouts } from '../../server/providers/calls.ts'
import { createTeams } from '../../server/providers/microsoft-teams/microsoft-teams.ts'
import type { Chat } from '../../server/providers/provider.ts'
import { appUrl, type Browser, shareHarness } from './harness.ts'

export const id = 'microsoft-teams'
export const page = `/api/${id}/address`
/** Whoever knows it can post. */
export const secret = 'S3cretSignature'
export const allowedForm: Record<string, string> = {
  Origin: appUrl,
  'Sec-Fetch-Site': 'same-origin',
  'Sec-Fetch-Mode': 'navigate',
}
export const accepted = () => new Response(null, { status: 202 })
export const wayBack = (answer: Response) => new URL(answer.headers.get('Location') ?? '')

/** What the tests of a file share that paste the addresses of webhooks: as `shareHarness`, with a chat of that kind. */
export async function sharePasting() {
  let webhooks = ''
  const harness = await shareHarness((outside) => {
    webhooks = outside
    return { VITE_CHAT_NAME: 'Microsoft Teams', MICROSOFT_TEAMS_WEBHOOK_ORIGINS: outside }
  })

  const addressOf = (workflow: string) =>
    `${webhooks}/powerautomate/automations/direct/workflows/${workflow}/triggers/manual/paths/invoke?api-version=1&sig=${secret}`
  const address = addressOf('0123456789abcdef')
  const settings = harness.addresses.providers[id]
  const { standInAddress = '' } = settings

  /** What the webhook answers with. */
  function answerPosts(answer: () => Response | Promise<Response>): void {
    harness.faults.current = ({ url }) => (url.includes('/powerautomate/') ? answer() : undefined)
  }
  const withProvider = (chat: Chat) =>
    harness.appWith({ providers: { ...harness.providers, [id]: chat } })
  const withSettings = (changes: Partial<AddressSettings>, callMs = 10_000) =>
    withProvider(createTeams({ ...settings, ...changes }, { ...defaultTimeouts, callMs }))

  /** @returns the state that our page was opened with. */
  async function begin(one: Browser, provider: 'hubspot' | typeof id = id): Promise<string> {
    const begun = await one.send(`/api/${provider}/auth`)
    return new URL(begun.headers.get('Location') ?? '').searchParams.get('state') ?? ''
  }
  const submit = (one: Browser, form: Record<string, string>, headers = allowedForm) =>
    one.send(page, {
      method: 'POST',
      body: new URLSearchParams({ answer: 'connect', ...form }),
      headers,
    } as RequestInit)
  /** Pastes the address. @returns how the browser comes back to the dashboard. */
  async function paste(one: Browser, pasted = address): Promise<URLSearchParams> {
    answerPosts(accepted)
    return wayBack(await submit(one, { state: await begin(one), address: pasted })).searchParams
  }
  const comeBack = (one: Browser, params: URLSearchParams) =>
    one.call(`/api/${id}/callback?${params}`)
  const stored = () => harness.database.select().from(connections)
  const storedAddress = async () => {
    const [row] = await stored()
    return row && openSecrets(harness.vault, row).incomingWebhookUrl
  }
  const later = (ms: number) => {
    harness.clock.now = new Date(harness.clock.now.getTime() + ms)
  }

  return {
    ...{ harness, address, addressOf, settings, standInAddress },
    ...{ answerPosts, withProvider, withSettings, later },
    ...{ begin, submit, paste, comeBack, stored, storedAddress },
  }
}
