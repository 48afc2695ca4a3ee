/**
 * The one address whose document may hold a frame (page-headers.ts). The router knows these spellings
 * as well. In a file of its own, so that the dashboard does not carry all headers along.
 */
export const contactPath = /^\/contact\/?$/i
