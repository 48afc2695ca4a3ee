/** The names of the two services if VITE_CRM_NAME and VITE_CHAT_NAME are unset. */
export const defaultNames = { VITE_CRM_NAME: 'HubSpot', VITE_CHAT_NAME: 'Slack' } as const

/** What a provider's name must be. */
export const providerName = {
  pattern: /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$/,
  inWords: "1 to 40 letters, digits, spaces, '.', '_' or '-'",
}

/**
 * Returns the id of a provider from its name: the name in lower case, with '-' for spaces. Paths contain the id
 * (`/api/{id}/status`, `/{id}/callback`).
 */
export function providerIdOf(name: string): string {
  return name.toLowerCase().replaceAll(' ', '-')
}
