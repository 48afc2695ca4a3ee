import { existsSync, lstatSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { readText } from './text-file.ts'

// A value in quotes may have several lines. Without quotes, typographic ones are a mistake, and parseEnv takes
// everything after # for a comment.
const quoted = /(["'`])(?:(?!\1)[\s\S])*\1[ \t]*(?:#.*)?/
const plain = /(?![^\S\n]*["'`“”„‘’«»])[^#\n]*(?:(?<=[ \t])#.*)?/
/** What parseEnv reads completely. */
const setting = new RegExp(
  `^[ \\t]*(?:export +)?[A-Za-z_][\\w.-]*[ \\t]*=(?:[ \\t]*${quoted.source}|${plain.source})$`,
  'gm',
)

/**
 * Reads the settings of `.env`; none if there is no such file.
 * @throws Error if the file exists, but cannot be read completely. It quotes nothing of the file.
 */
export function readEnvFile(folder: string): Readonly<Record<string, string | undefined>> {
  const path = join(folder, '.env')
  // A link that leads nowhere exists.
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) {
    if (!existsSync(`${path}.txt`)) return {}
    throw new Error(`${path}.txt exists, but the settings belong into ${path}. Rename the file.`)
  }
  let text: string
  try {
    text = readText(path).replaceAll(/\r\n?/g, '\n')
  } catch (error) {
    throw new Error(`${path} exists, but ${Object(error).message}.`, { cause: error })
  }
  const rest = text.replaceAll(setting, (all) => all.replaceAll(/.+/g, ''))
  const lines = rest.split('\n').flatMap((line, index) => (/^\s*(#|$)/.test(line) ? [] : index + 1))
  if (lines.length === 0) {
    // parseEnv takes some comments for settings, and `export ` for a part of the name.
    const settings = text.match(setting) ?? []
    return parseEnv(settings.map((each) => each.replace(/^\s*(?:export +(?=\w))?/, '')).join('\n'))
  }
  throw new Error(
    `${path} has settings that cannot be read: see line ${lines.join(', ')}. Write NAME=value, and put a value with # into straight quotes (").`,
  )
}

/** What every program does first: it takes from `.env` what the environment does not say. */
export function loadEnvFile(folder = '.'): void {
  // Podman takes the mark before the first name of its --env-file for a part of the name.
  const marked = Object.keys(process.env).filter((name) => name.startsWith('\uFEFF'))
  for (const name of marked) process.env[name.slice(1)] ??= process.env[name]
  for (const [name, value] of Object.entries(readEnvFile(folder))) process.env[name] ??= value
}
