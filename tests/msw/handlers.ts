import { getResponse, HttpResponse, http } from 'msw'
import * as v from 'valibot'
import { endpoints, navigations, personHeader, saveRulesBody } from '../../contract/endpoints.ts'
import { endSessionCall } from '../../contract/features/sessions.ts'
import { featureCalls } from '../../contract/features.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import {
  type ActivityBackend,
  activityHandlers,
  createActivityBackend,
  type On,
  type Params,
} from './activity.ts'

export interface BackendState {
  /** The ids of the connected providers, as in paths. */
  connected: Set<string>
  rules: string[]
  /** The valid authorization codes; each works once. */
  codes: Set<string>
  /** What the health answer lists beyond section 7; undefined leaves the field out. */
  features: string[] | undefined
  /** Whom the answers name, `nobody` without a session. Undefined: a backend of section 7 names none. */
  person: string | undefined
  activity: ActivityBackend
}

export interface RecordedRequest {
  method: string
  /** Path and query. The parameters are in order of the alphabet. */
  target: string
  body: string
  /** The person whom the page shows, if the call says so. */
  person: string | null
}

/**
 * A backend of section 7 in memory, and of what goes beyond it if `features` says so. tests/contract
 * runs the same tests against this backend and the real one.
 */
export function createBackend({
  providers = ['hubspot', 'slack'],
  activity,
  ...initial
}: Partial<Omit<BackendState, 'activity'>> & {
  /** The CRM, then the chat. */
  providers?: readonly string[]
  activity?: Partial<ActivityBackend>
} = {}) {
  const state: BackendState = {
    connected: new Set(),
    rules: [],
    codes: new Set(),
    features: undefined,
    person: undefined,
    activity: createActivityBackend(activity),
    ...initial,
  }

  const offers = (feature: string) => state.features?.includes(feature) === true
  const on: On = ({ method, path, feature }, answer) =>
    http[lowerCase[method]]<Params>(`*${path}`, (call) =>
      feature === undefined || offers(feature) ? answer(call) : notFound(),
    )

  const calls = [
    on(endSessionCall, ({ request }) => {
      if (new URL(request.url).searchParams.get('others') !== 'true') {
        state.connected.clear()
        state.rules = []
        state.activity.items = []
        if (state.person !== undefined) state.person = 'nobody'
      }
      return new HttpResponse(null, { status: 204 })
    }),

    on(endpoints.rules, () => HttpResponse.json({ rules: state.rules })),

    on(endpoints.saveRules, async ({ request }) => {
      if (!request.headers.get('content-type')?.startsWith('application/json')) {
        return refuse(415, 'unsupported_media_type', 'The body must be application/json.')
      }
      const body = v.safeParse(saveRulesBody, await request.json().catch(() => undefined))
      if (!body.success) return refuse(400, 'invalid_body', 'The body must be {"rules": [ids]}.')
      const { rules } = body.output
      if (state.person !== undefined && !providers.every((id) => state.connected.has(id))) {
        return refuse(409, 'not_connected', 'Both services must be connected.')
      }
      if (!rules.every((id) => availableRuleIds.has(id) || state.rules.includes(id))) {
        return refuse(400, 'unknown_rule', 'A rule id is not offered.')
      }
      state.rules = [...new Set(rules)]
      return new HttpResponse(null, { status: 204 })
    }),

    on(endpoints.status, ({ params: { provider } }) =>
      providers.includes(provider)
        ? HttpResponse.json({ connected: state.connected.has(provider) })
        : notFound(),
    ),

    on(endpoints.disconnect, ({ params: { provider } }) => {
      if (!providers.includes(provider)) return notFound()
      state.connected.delete(provider)
      return new HttpResponse(null, { status: 204 })
    }),

    // The browser navigates here (§7), so no test of the dashboard gets this answer.
    on({ method: 'GET', ...navigations.authorize }, ({ params: { provider } }) => {
      if (!providers.includes(provider)) return notFound()
      const consent = new URL('https://provider.example/authorize?client_id=msw')
      consent.searchParams.set('redirect_uri', `https://dashboard.example/${provider}/callback`)
      return new HttpResponse(null, { status: 302, headers: { Location: String(consent) } })
    }),

    on(endpoints.callback, ({ request, params }) => {
      if (!providers.includes(params.provider)) return notFound()
      const code = new URL(request.url).searchParams.get('code') ?? ''
      if (!state.codes.delete(code)) return refuse(400, 'invalid_code', 'The code is not valid.')
      state.connected.add(params.provider)
      return new HttpResponse(null, { status: 204 })
    }),

    ...activityHandlers(state.activity, {
      on,
      offers,
      isConnected: (which) =>
        (which === 'crm' ? providers.slice(0, 1) : providers).every((id) =>
          state.connected.has(id),
        ),
      refuse,
    }),

    // What has no state here.
    ...featureCalls.map(({ call, example }) =>
      on(call, () =>
        example === undefined ? new HttpResponse(null, { status: 204 }) : Response.json(example),
      ),
    ),
  ]

  const handlers = [
    on(endpoints.health, () => HttpResponse.json({ status: 'ok', features: state.features })),
    http.all('*/api/*', async ({ request }) => {
      const shown = request.headers.get(personHeader)
      const isOther = request.method !== 'GET' && shown !== null && shown !== state.person
      const answer = isOther
        ? refuse(409, 'another_person', 'The page shows another person.')
        : await getResponse(calls, request)
      if (answer === undefined) {
        const { pathname } = new URL(request.url)
        console.error(
          `tests/msw has no answer for ${request.method} ${pathname}: is its feature in contract/features.ts?`,
        )
        return notFound()
      }
      answer.headers.set('Cache-Control', 'no-store')
      // The name of the person at the end of the call.
      if (state.person !== undefined) answer.headers.set(personHeader, state.person)
      return answer
    }),
  ]

  return { handlers, state }
}

const lowerCase = { GET: 'get', POST: 'post', DELETE: 'delete' } as const

const notFound = () => refuse(404, 'not_found', 'There is nothing here.')

const refuse = (status: number, code: string, message: string) =>
  HttpResponse.json({ error: { code, message } }, { status })
