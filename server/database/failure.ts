import { DrizzleQueryError } from 'drizzle-orm'
import { errorCode } from '../log.ts'

/**
 * The classes of SQLSTATE that blame the statement or its values: data exception, integrity constraint
 * violation, and syntax error or access rule violation. Such a statement fails each time.
 */
const faultsOfStatement = /^(22|23|42)/

/**
 * Whether a statement failed because of the database: it stopped, its connection broke, it ended the
 * statement after a deadlock or a time limit, or its disk is full. The same statement can succeed later.
 */
export function isDatabaseFailure(error: unknown): boolean {
  if (!(error instanceof DrizzleQueryError)) return false
  // Both drivers add SQLSTATE to the errors of the server. Other errors come from the connection.
  return !faultsOfStatement.test(errorCode(error) ?? '')
}
