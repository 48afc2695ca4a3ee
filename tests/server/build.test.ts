import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { ensurePageBuilt } from '../../server/page/build.ts'
import { fingerprintOf } from '../../server/page/fingerprint.ts'
import { newFolder } from '../database.ts'

let root: string

beforeEach(async () => {
  root = await newFolder()
  for (const file of ['index.html', 'src/main.tsx', 'src/ui/Button.tsx', 'contract/rules.ts']) {
    await put(file)
  }
})

async function put(file: string, text = '') {
  const path = join(root, file)
  await mkdir(join(path, '..'), { recursive: true })
  await writeFile(path, text)
}

/** What `npm run build` leaves behind (build/build-info.ts). */
async function build() {
  const settings = { apiUrl: 'https://api.example', contactFormUrl: '/form' }
  const names = { crmName: 'HubSpot', chatName: 'Slack' }
  const info = { fingerprint: await fingerprintOf(root), ...settings, ...names }
  await put('dist/.build.json', JSON.stringify(info))
}

/** Starts the server; returns what it says about a build. */
async function start(): Promise<string | undefined> {
  const log = vi.fn()
  await ensurePageBuilt(log, { root, build })
  return log.mock.lastCall?.[0]
}

describe('the server builds the dashboard at its start', () => {
  test('if there is no build of this version, and only then', async () => {
    await put('dist/.build.json', '{"apiUrl":""}')
    expect(await start()).toMatch('not built yet')
    await rm(join(root, 'dist'), { recursive: true })
    expect(await start()).toMatch('not built yet')
    expect(await start()).toBeUndefined()
  })

  test('if a source was added, changed, removed or renamed', async () => {
    await build()
    const folders = ['src/main.tsx', 'src/routes/new.tsx', 'contract/rules.ts', 'build/preload.ts']
    const single = ['index.html', 'vite.config.ts', 'tailwind.config.ts', 'package-lock.json']
    for (const file of [...folders, 'public/favicon.svg', ...single]) {
      await put(file, 'changed')
      expect(await start(), file).toMatch('have changed')
    }
    await rm(join(root, 'src/ui/Button.tsx'))
    expect(await start()).toMatch('have changed')
    await rm(join(root, 'src/main.tsx'))
    await put('src/start.tsx')
    expect(await start()).toMatch('have changed')
  })

  test('if the VITE_ settings differ from those of the build', async () => {
    vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
    await build()
    expect(await start()).toBeUndefined()
    vi.stubEnv('VITE_CRM_NAME', 'Zoho')
    expect(await start()).toMatch('have changed')
    vi.stubEnv('VITE_CRM_NAME', undefined)
    expect(await start()).toMatch('have changed')
    vi.stubEnv('VITE_CRM_NAME', '')
    expect(await start()).toBeUndefined()
  })

  test('but not if only a setting or a source of the server has changed', async () => {
    await build()
    vi.stubEnv('PORT', '4000')
    await put('server/app.ts', 'changed')
    expect(await start()).toBeUndefined()
  })
})

test('a build without its sources is served as it is, but not with other settings', async () => {
  await build()
  for (const source of ['src', 'contract', 'index.html']) {
    await rm(join(root, source), { recursive: true })
  }
  vi.stubEnv('VITE_CRM_NAME', 'HubSpot')
  vi.stubEnv('VITE_API_URL', 'https://api.example/')
  expect(await start()).toBeUndefined()

  vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
  vi.stubEnv('VITE_CONTACT_FORM_URL', '/other-form')
  await expect(start()).rejects.toThrow(
    "- VITE_CRM_NAME is 'Pipedrive', but dist/ was built with 'HubSpot'.\n" +
      "- VITE_CONTACT_FORM_URL is '/other-form', but dist/ was built with '/form'.\n" +
      'Correct these settings, or build dist/ with them where the sources are (npm run build).',
  )
})

test('a build without Vite says what to do', async () => {
  await expect(ensurePageBuilt(() => {}, { root })).rejects.toThrow(
    'Vite is not installed, so the dashboard cannot be built. Run npm ci.',
  )
})

test('a build that fails stops the start', async () => {
  const build = () => Promise.reject(new Error('The dashboard could not be built'))
  await expect(ensurePageBuilt(() => {}, { root, build })).rejects.toThrow('could not be built')
})
