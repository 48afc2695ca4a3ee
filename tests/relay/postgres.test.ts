import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)

test.each([0, 3])(
  'a command that starts PostgreSQL ends with its own exit code: %i',
  async (own) => {
    const command = `
    import { startPostgres } from './tests/relay/postgres.ts'
    const { stop } = await startPostgres()
    await stop()
    process.exitCode = ${own}
  `
    const ended = run(process.execPath, ['--input-type=module', '--eval', command]).then(
      () => 0,
      ({ code }: { code: number }) => code,
    )
    expect(await ended).toBe(own)
  },
)
