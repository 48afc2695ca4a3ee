import type { Context } from 'hono'

/** The text fields of a form body. Other fields, such as files, are ignored. */
export async function formFields(c: Context): Promise<Record<string, string>> {
  const fields: Record<string, string> = {}
  for (const [name, value] of Object.entries(await c.req.parseBody())) {
    if (typeof value === 'string') fields[name] = value
  }
  return fields
}
