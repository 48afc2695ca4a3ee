import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test, vi } from 'vitest'
import { readBuiltPage } from '../../server/page/build.ts'
import { newFolder } from '../database.ts'

let dist: string

/** What `npm run build` leaves behind (build/publish.ts). */
beforeEach(async () => {
  dist = await newFolder()
  const settings = { apiUrl: 'https://api.example', contactFormUrl: '/form' }
  const contactFormOrigins = ['https://a.example', 'https://b.example']
  const names = { crmName: 'HubSpot', chatName: 'Slack' }
  await mkdir(dist, { recursive: true })
  await writeFile(join(dist, 'index.html'), '<p>Dealbell</p>')
  await writeFile(
    join(dist, '.build.json'),
    JSON.stringify({ ...settings, contactFormOrigins, ...names }),
  )
})

test('a build is served as it is, but not with other settings', async () => {
  await readBuiltPage(dist)
  vi.stubEnv('VITE_CRM_NAME', 'HubSpot')
  vi.stubEnv('VITE_API_URL', 'https://api.example/')
  vi.stubEnv('VITE_CONTACT_FORM_ORIGINS', 'https://a.example , https://b.example,')
  await readBuiltPage(dist)

  vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
  vi.stubEnv('VITE_CONTACT_FORM_URL', '/other-form')
  vi.stubEnv('VITE_CONTACT_FORM_ORIGINS', 'https://a.example')
  await expect(readBuiltPage(dist)).rejects.toThrow(
    "- VITE_CRM_NAME is 'Pipedrive', but dist/ was built with 'HubSpot'.\n" +
      "- VITE_CONTACT_FORM_URL is '/other-form', but dist/ was built with '/form'.\n" +
      "- VITE_CONTACT_FORM_ORIGINS is 'https://a.example', but dist/ was built with 'https://a.example,https://b.example'.\n" +
      'Correct these settings, or build dist/ with them where the sources are (npm run build).',
  )
})

test('a build that is missing or was interrupted says what to do', async () => {
  await rm(join(dist, '.build.json'))
  await expect(readBuiltPage(dist)).rejects.toThrow(
    'has no complete build of the dashboard. Run npm run build, or start the server without it: SERVE_DASHBOARD=false.',
  )
  vi.stubEnv('npm_config_ignore_scripts', 'true')
  await expect(readBuiltPage(dist)).rejects.toThrow(
    'has no complete build of the dashboard, because npm is set to ignore-scripts. Run npm run build',
  )
})
