import type { Context } from 'hono'
import { ApiError } from '../server/http/errors.ts'

/** The text fields of a form body. Other fields, such as files, are ignored. */
export async function formFields(c: Context): Promise<Record<string, string>> {
  const fields: Record<string, string> = {}
  for (const [name, value] of Object.entries(await parseBody(c))) {
    if (typeof value === 'string') fields[name] = value
  }
  return fields
}

async function parseBody(c: Context): Promise<object> {
  try {
    return await c.req.parseBody()
  } catch {
    throw new ApiError(400, 'invalid_body', 'The body is not a form.')
  }
}
