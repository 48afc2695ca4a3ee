import { delay, getResponse } from 'msw'
import type { ActivityItem } from '../../contract/features/activity.ts'
import { featureNames } from '../../contract/features.ts'
import { config } from '../../src/config.ts'
import { messagesInEveryState } from '../states/states.ts'
import { answerFetch } from './browser.ts'
import { createBackend } from './handlers.ts'

// Runs before the app in `npm run dev -- --mock`: the backend of the tests answers the page's calls.

interface Kept {
  connected: string[]
  rules: string[]
  items: ActivityItem[]
}

const kept: Kept = JSON.parse(sessionStorage.getItem('dealbell-mock') ?? 'null') ?? {
  connected: [],
  rules: [],
  items: messagesInEveryState,
}

const { handlers, state } = createBackend({
  providers: [config.crm.id, config.chat.id],
  connected: new Set(kept.connected),
  rules: kept.rules,
  // Each authorization returns with this code and loads the page anew (build/mock.ts).
  codes: new Set(['mock']),
  features: [...featureNames],
  activity: { items: kept.items },
})

/** Sends each waiting message that has no next try, such as one that the user sends again. */
function sendWaiting() {
  for (const item of state.activity.items) {
    if (item.state !== 'waiting' || item.nextTryAt !== null) continue
    Object.assign(item, { state: 'sent', channel: '#sales-floor', tries: item.tries + 1 })
  }
}

answerFetch(async (request) => {
  if (request.method === 'GET') sendWaiting()
  const answer = await getResponse(handlers, request)
  if (answer === undefined) return undefined
  const { connected, rules, activity } = state
  const keep: Kept = { connected: [...connected], rules, items: activity.items }
  // A reload of this tab finds what the user did. A new tab begins anew.
  sessionStorage.setItem('dealbell-mock', JSON.stringify(keep))
  // The network panel of the browser does not show these calls.
  console.info(`mock: ${request.method} ${request.url} ${answer.status}`)
  // Long enough to see what the page shows meanwhile.
  await delay(150)
  return answer
})

const sign = document.createElement('p')
sign.textContent = 'Mock: nothing leaves this page. A new tab begins anew.'
sign.style.cssText = 'background: #fde68a; color: #422006; padding: 0.25rem; text-align: center'
document.body.prepend(sign)
