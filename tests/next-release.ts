import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { newFolder } from './database.ts'

const root = resolve(import.meta.dirname, '..')

// A table in use gets a column, an index takes the place of another one, and then all finished deliveries change.
const migrations = [
  {
    tag: '0001_made_up',
    sql: `ALTER TABLE "deliveries" ADD COLUMN "made_up" text DEFAULT 'next' NOT NULL;--> statement-breakpoint
ALTER TABLE "channels" ADD COLUMN "made_up" text;--> statement-breakpoint
CREATE INDEX "deliveries_made_up" ON "deliveries" USING btree ("made_up","id");--> statement-breakpoint
CREATE INDEX "deal_events_arrived" ON "deal_events" USING btree ("received_at","id");--> statement-breakpoint
-- Unused since 0.1.0: deal_events_arrived begins with the same column.
DROP INDEX "deal_events_received";`,
  },
  {
    tag: '0002_made_up_rows',
    sql: `UPDATE "deliveries" SET "made_up" = 'former' WHERE "finished_at" IS NOT NULL;`,
  },
]
/** The indexes that the made-up release builds, and the one that it drops. */
export const nextIndexes = ['deliveries_made_up', 'deal_events_arrived']
export const droppedIndex = 'deal_events_received'

export const nextVersion = '99.0.0'

/** Makes a made-up next release of a copy of the code: two migrations more, and a schema that needs them. */
export function makeNext(project: string): void {
  change(project, 'package.json', (text) =>
    text.replace(/"version": ".*"/, `"version": "${nextVersion}"`),
  )
  for (const [after, column] of [
    ["finishedAt: time('finished_at'),", "madeUp: text('made_up').notNull(),"],
    ["dueAt: time('due_at'),", "madeUp: text('made_up'),"],
  ] as const) {
    change(project, 'server/database/schema.ts', (text) => text.replace(after, `$&\n    ${column}`))
  }
  const folder = 'server/database/migrations'
  change(project, `${folder}/meta/_journal.json`, (text) => {
    const journal: { entries: object[] } = JSON.parse(text)
    for (const { tag, sql } of migrations) {
      writeFileSync(join(project, folder, `${tag}.sql`), sql)
      const idx = journal.entries.length
      journal.entries.push({ ...journal.entries[0], idx, when: Date.now() + idx, tag })
    }
    return JSON.stringify(journal)
  })
}

function change(project: string, file: string, by: (text: string) => string): void {
  const path = join(project, file)
  const text = readFileSync(path, 'utf8')
  const changed = by(text)
  if (changed === text) throw new Error(`${file} is as before.`)
  writeFileSync(path, changed)
}

/** The server of the made-up next release, in a folder. */
export async function nextServer(): Promise<string> {
  const folder = await newFolder()
  for (const part of ['server', 'contract', 'stand-ins', 'package.json', 'tsconfig.json']) {
    cpSync(join(root, part), join(folder, part), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  makeNext(folder)
  return folder
}
