import { setupServer } from 'msw/node'

export const server = setupServer()

/** The calls that have reached the backend: how many, and the ids of those that it still has to answer. */
export const traffic = { calls: 0, unanswered: new Set<string>() }
