import { existsSync } from 'node:fs'
import { lstat, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { doctors } from '../providers/doctors.ts'
import type { App } from '../providers/provider-doctor.ts'
import { chatIds, crmIds, named, type OAuthId, oauthIds, usedOf } from '../providers/registry.ts'
import { watchedProperties } from '../relay/decide/rules.ts'
import type { Addresses } from '../settings/settings.ts'

export const listed = (names: readonly string[]) => new Intl.ListFormat('en-GB').format(names)

export function appOf({ appUrl, apiUrl, providers }: Addresses, id: OAuthId): App {
  const chats = named(usedOf(providers, chatIds)).join(' or ')
  const crms = named(usedOf(providers, crmIds)).join(' or ')
  return {
    settings: providers[id],
    description: `Tells a ${chats} channel when a ${crms} deal moves.`,
    redirectUrl: appUrl + pathOf(navigations.callbackPage, id),
    webhookUrl: `${apiUrl}/webhooks/${id}`,
    properties: [...watchedProperties],
  }
}

interface Request {
  folder: string
  /** If undefined, that of the files in the folder, or the default. */
  distribution: string | undefined
  /** Whether to overwrite files with another content. */
  force: boolean
}

/** @returns the paths of the files that it wrote, and whether any is needed. @throws Error that says what to do, before it writes anything. */
export async function writeManifests(
  addresses: Addresses,
  { folder, distribution, force }: Request,
): Promise<{ written: string[]; isNeeded: boolean }> {
  const { appUrl, apiUrl, providers } = addresses
  const ids = usedOf(providers, oauthIds)
  for (const [name, url] of Object.entries({ APP_URL: appUrl, API_URL: apiUrl })) {
    if (url.startsWith('https://')) continue
    throw new Error(
      `${listed(named(ids))} accept${ids.length === 1 ? 's' : ''} only https addresses, but ${name} is ${new URL(url).origin}. Set ${name} to the address at which the internet reaches it, such as https://bell.example.com.`,
    )
  }
  const files = ids.flatMap((id) =>
    Object.entries(doctors[id].files(appOf(addresses, id), distribution)),
  )
  const different: { path: string; text: string }[] = []
  for (const [name, contentAfter] of files) {
    await refuseLinks(folder, name)
    const path = join(folder, name)
    const earlier = existsSync(path) ? await readFile(path, 'utf8') : ''
    const text = `${JSON.stringify(contentAfter(earlier), null, 2)}\n`
    if (text !== earlier) different.push({ path, text })
  }
  const overwritten = different.filter(({ path }) => existsSync(path))
  if (overwritten.length > 0 && !force) {
    const list = overwritten.map(({ path }) => `- ${path}`).join('\n')
    throw new Error(
      `These files exist and have another content, so nothing was written:\n${list}\nRepeat the command with --force to overwrite them, or name another folder.`,
    )
  }
  for (const { path, text } of different) {
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, text)
  }
  return { written: different.map(({ path }) => path), isNeeded: files.length > 0 }
}

/**
 * Somebody else may be able to write to the folder. A symbolic link there would let us write anywhere.
 * @param name the path of a file below the folder.
 * @throws Error if it, or a folder on the way to it, is a symbolic link.
 */
async function refuseLinks(folder: string, name: string): Promise<void> {
  let path = folder
  for (const part of name.split('/')) {
    path = join(path, part)
    const found = await lstat(path).catch(() => undefined)
    if (!found?.isSymbolicLink()) continue
    throw new Error(
      `${path} is a symbolic link, so nothing was written. Remove it, or name another folder.`,
    )
  }
}
