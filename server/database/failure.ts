import { DrizzleQueryError } from 'drizzle-orm'

/**
 * The classes of SQLSTATE that blame the statement or its values: data exception, integrity constraint
 * violation, and syntax error or access rule violation. Such a statement fails each time.
 */
const faultsOfStatement = /^(22|23|42)/

/**
 * Whether a statement failed because of the database: it stopped, its connection broke, or it ended the
 * statement after a deadlock or a time limit. The same statement can succeed later.
 */
export function isDatabaseFailure(error: unknown): boolean {
  if (!(error instanceof DrizzleQueryError)) return false
  const { cause } = error
  // Both drivers add SQLSTATE to the errors of the server. Other errors come from the connection.
  const code = cause !== undefined && 'code' in cause ? String(cause.code) : ''
  return !faultsOfStatement.test(code)
}
