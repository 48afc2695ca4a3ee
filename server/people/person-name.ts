import { hash } from 'node:crypto'

/** Names a browser without a session to its pages. */
export const nobody = 'nobody'

/**
 * Names a person to the pages of their browser. The hash does not reveal the user's id. The name says so if the CRM has
 * not told yet who it is.
 */
export function personOf({
  userId,
  crmUserId,
}: {
  userId: string
  crmUserId: string | null
}): string {
  const name = hash('sha256', `person ${userId}`, 'hex').slice(0, 16)
  return crmUserId === null ? `${nobody}-${name}` : name
}
