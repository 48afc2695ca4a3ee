/** The database must not be used. The message says why. In a file of its own, because a start reads it before all others. */
export class Refused extends Error {}
