import { resolve } from 'node:path'
import { build, type Plugin } from 'vite'
import { vi } from 'vitest'

/** The defaults, in spite of a developer's .env. */
export const defaultSettings = {
  VITE_API_URL: '',
  VITE_CRM_NAME: '',
  VITE_CHAT_NAME: '',
  VITE_CONTACT_FORM_URL: '',
  VITE_CONTACT_FORM_ORIGINS: '',
  HSTS_MAX_AGE: '',
}

/** Builds the dashboard into a folder as `npm run build` does, whatever the machine's settings are. */
export async function buildPage(
  outDir: string,
  plugins: Plugin[] = [],
  settings: Partial<typeof defaultSettings> = {},
  NODE_ENV = 'production',
): Promise<void> {
  const env = { ...defaultSettings, ...settings, NODE_ENV, VITEST: undefined }
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  const root = resolve(import.meta.dirname, '../..')
  // Without its own plugin against that, Vite would empty the folder, as it does with dist/.
  await build({ root, plugins, logLevel: 'silent', build: { outDir, emptyOutDir: true } })
  vi.unstubAllEnvs()
}
