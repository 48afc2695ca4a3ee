/**
 * The only address whose document may contain a frame (page-headers.ts), in all spellings that the
 * router accepts. It has its own file so that the dashboard's script does not include the headers.
 */
export const contactPath = /^\/contact\/?$/i
