import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ensurePageBuilt } from '../../server/page/build.ts'

let root: string
const past = new Date('2026-01-01T00:00:00Z')
const later = new Date('2026-01-01T00:00:10Z')

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'dealbell-build-'))
  for (const file of ['index.html', 'src/main.tsx', 'src/ui/Button.tsx', 'contract/rules.ts']) {
    await put(file)
  }
})
afterEach(() => rm(root, { recursive: true }))

async function put(file: string, text = '', time = past) {
  const path = join(root, file)
  await mkdir(join(path, '..'), { recursive: true })
  await writeFile(path, text)
  await utimes(path, time, time)
  // A folder's time tells of files that came and went.
  for (let folder = join(path, '..'); folder !== root; folder = join(folder, '..')) {
    await utimes(folder, time, time)
  }
}

async function start(): Promise<string | undefined> {
  let reason: string | undefined
  await ensurePageBuilt(
    (sentence) => {
      reason = sentence
    },
    { root, build: () => put('dist/index.html', '', later) },
  )
  return reason
}

describe('the page is built at a start', () => {
  test('when it is missing, and only then', async () => {
    expect(await start()).toMatch('not built yet')
    expect(await start()).toBeUndefined()
  })

  test.each([
    'src/main.tsx',
    'src/ui/Button.tsx',
    'src/routes/new.tsx',
    'contract/rules.ts',
    'index.html',
    'vite.config.ts',
    'tailwind.config.ts',
    'public/favicon.svg',
    'package-lock.json',
  ])('when it is older than %s', async (file) => {
    await start()
    await put(file, '', new Date(later.getTime() + 1000))
    expect(await start()).toMatch('sources are newer')
  })

  test('when a source was removed', async () => {
    await start()
    await rm(join(root, 'src/ui/Button.tsx'))
    expect(await start()).toMatch('sources are newer')
  })

  test('when its settings have changed, in the environment or in .env', async () => {
    await start()
    vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
    expect(await start()).toMatch('VITE_ settings have changed')
    expect(await start()).toBeUndefined()
    vi.unstubAllEnvs()
    expect(await start()).toMatch('VITE_ settings have changed')
    await put('.env', 'VITE_CHAT_NAME=Teams\nPORT=1\n')
    expect(await start()).toMatch('VITE_ settings have changed')
    expect(await start()).toBeUndefined()
  })

  test('but not when only the server’s settings or sources have', async () => {
    await start()
    vi.stubEnv('PORT', '4000')
    await put('server/app.ts', '', new Date(later.getTime() + 1000))
    expect(await start()).toBeUndefined()
  })

  test('but not when it was built by hand, whatever its settings were', async () => {
    await put('dist/index.html', '', later)
    vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
    expect(await start()).toBeUndefined()
  })

  test('but not when it came without its sources', async () => {
    await start()
    await rm(join(root, 'index.html'))
    await put('src/main.tsx', '', new Date(later.getTime() + 1000))
    expect(await start()).toBeUndefined()
  })
})

test('a build that fails stops the start', async () => {
  const build = () => Promise.reject(new Error('The dashboard could not be built'))
  await expect(ensurePageBuilt(() => {}, { root, build })).rejects.toThrow('could not be built')
})
