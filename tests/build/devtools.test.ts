import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { buildPage } from './build-page.ts'

/** The packages that draw the panels, each with a string literal of its own, which minifying keeps. */
const signs = {
  '@tanstack/query-devtools': 'tsqd-',
  '@tanstack/router-devtools-core': 'tanstackRouterDevtools',
}

async function scriptsIn(folder: string): Promise<string> {
  const files = await readdir(folder, { recursive: true })
  const scripts = files.filter((file) => file.endsWith('.js'))
  return (await Promise.all(scripts.map((file) => readFile(join(folder, file), 'utf8')))).join('\n')
}

test('the build contains nothing of the panels that npm run dev shows', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dealbell-devtools-'))
  const modules: string[] = []
  await buildPage(folder, [
    {
      name: 'test:modules',
      generateBundle: (_options, bundle) => {
        for (const file of Object.values(bundle)) {
          if (file.type === 'chunk') modules.push(...file.moduleIds)
        }
      },
    },
  ])
  const built = await scriptsIn(folder)
  const page = await readFile(join(folder, 'index.html'), 'utf8')
  await rm(folder, { recursive: true })

  expect(modules.some((id) => id.endsWith('/src/main.tsx'))).toBe(true)
  expect(modules.filter((id) => id.includes('devtools'))).toEqual([])
  expect(page).not.toContain('devtools')
  for (const [name, sign] of Object.entries(signs)) {
    const source = await scriptsIn(resolve(import.meta.dirname, '../../node_modules', name))
    expect(source, name).toContain(sign)
    expect(built, name).not.toContain(sign)
  }
})
