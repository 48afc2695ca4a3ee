import { fieldsOf, type Reply } from '../cli/ask.ts'

/** One line of the report: what is right, or what is wrong and what to do. It contains no secret. */
export interface Finding {
  /** `warning`: Dealbell works, but not as a user may expect. */
  kind: 'right' | 'warning' | 'wrong'
  text: string
}

export const right = (text: string): Finding => ({ kind: 'right', text })
export const warning = (text: string): Finding => ({ kind: 'warning', text })
export const wrong = (text: string): Finding => ({ kind: 'wrong', text })

/** A code for the report. Anything else, such as a page of a proxy, is left out. */
export function codeOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : undefined
}

/** Why HubSpot lets nobody of an account install or use the app. It says this only in a sentence. */
export function installationRefusal(reply: Reply): 'policy' | 'approval' | undefined {
  const { message } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
  if (typeof message !== 'string') return undefined
  if (/not signed the acceptable use policy/i.test(message)) return 'policy'
  return /app hasn['’]t been approved/i.test(message) ? 'approval' : undefined
}

/** `who` must approve the app. */
export const refusalInWords = {
  policy: () =>
    "HubSpot says that its acceptable use policy is not signed. Sign it on the app's page at HubSpot (hs project open): tab Distribution, Begin publishing.",
  approval: (who: string) =>
    `HubSpot says that the account has not approved the app. A Super Admin of ${who} must approve it and its optional scopes: Settings › Integrations › Connected Apps › Approved apps.`,
}
