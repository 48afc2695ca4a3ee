import { DrizzleQueryError, type SQL } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'
import type { OpenDatabase } from '../../server/database/open.ts'

const dialect = new PgDialect()

/**
 * The same database, as one process reaches it. A statement runs and is committed. Then `beforeAnswer` may
 * delay its answer, or lose the answer by throwing.
 */
export function intercepted(
  open: OpenDatabase,
  beforeAnswer: (statement: string) => unknown,
): OpenDatabase {
  const database = new Proxy(open.database, {
    get(target, name) {
      if (name !== 'execute') return Reflect.get(target, name)
      return async (query: SQL) => {
        const answer = await target.execute(query)
        const statement = dialect.sqlToQuery(query).sql
        try {
          await beforeAnswer(statement)
        } catch (error) {
          throw new DrizzleQueryError(statement, [], error instanceof Error ? error : undefined)
        }
        return answer
      }
    },
  })
  return { ...open, database }
}
