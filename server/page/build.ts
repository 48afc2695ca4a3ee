import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { originsIn } from '../../contract/origins.ts'
import { pagePolicy } from '../../contract/page-headers.ts'
import { defaultNames } from '../../contract/provider-names.ts'
import type { Dashboard } from './serve.ts'

// The build writes this file about itself (build/publish.ts).
const buildInfoFile = '.build.json'
const buildInfo = v.object({
  apiUrl: v.string(),
  contactFormUrl: v.string(),
  contactFormOrigins: v.array(v.string()),
  crmName: v.string(),
  chatName: v.string(),
})

/**
 * Reads the built page. Its policy fits the settings of the build.
 * @throws Error if there is no build, or if the settings are not those of the build.
 */
export async function readBuiltPage(
  folder = join(import.meta.dirname, '../../dist'),
): Promise<Dashboard> {
  const path = join(folder, buildInfoFile)
  if (!existsSync(path)) {
    throw new Error(
      // With this setting, npm leaves out prestart, too.
      `${folder} has no complete build of the dashboard${process.env.npm_config_ignore_scripts === 'true' ? ', because npm is set to ignore-scripts' : ''}. Run npm run build, or start the server without it: SERVE_DASHBOARD=false.`,
    )
  }
  const built = v.parse(buildInfo, JSON.parse(await readFile(path, 'utf8')))
  assertSettingsOf(built)
  return { folder, policy: pagePolicy(built), contactFormUrl: built.contactFormUrl }
}

/** Without what the build leaves out of a list or at the end of an address. */
const plain = (text: string) => originsIn(text).join(',').replace(/\/+$/, '')

function assertSettingsOf(built: v.InferOutput<typeof buildInfo>): void {
  const settings = {
    VITE_API_URL: built.apiUrl,
    VITE_CRM_NAME: built.crmName,
    VITE_CHAT_NAME: built.chatName,
    VITE_CONTACT_FORM_URL: built.contactFormUrl,
    VITE_CONTACT_FORM_ORIGINS: built.contactFormOrigins.join(','),
  }
  // This server answers for the default services if it serves their dashboard and no names are set.
  const unset: Readonly<Record<string, string>> = built.apiUrl === '' ? defaultNames : {}
  const problems = Object.entries(settings).flatMap(([name, built]) => {
    const set = plain(process.env[name] ?? '') || unset[name]
    const differs = set !== undefined && set !== plain(built)
    return differs ? [`- ${name} is '${set}', but dist/ was built with '${built}'.`] : []
  })
  if (problems.length > 0) {
    throw new Error(
      `${problems.join('\n')}\nCorrect these settings, or build dist/ with them where the sources are (npm run build).`,
    )
  }
}
