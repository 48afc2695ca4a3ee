let asked = 0

/** Counts the statements of a database that Drizzle opens with it. */
export const logger = { logQuery: () => void asked++ }

/** How many statements this process has asked of its database, for the metrics. */
export const statementsAsked = () => asked
