import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { backendRoots } from '../../contract/endpoints.ts'

// What the linter cannot check. biome.json has the rules about imports.

const root = resolve(import.meta.dirname, '../..')

/** The source files of a folder, as paths from the root. */
const sources = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/.test(path) && !path.includes('.gen.'))
    .map((path) => join(folder, path))

const read = (path: string) => readFileSync(join(root, path), 'utf8')

const dashboard = sources('src')
const everything = [
  ...dashboard,
  ...sources('contract'),
  ...sources('server'),
  ...sources('stand-ins'),
]

test('there is something to check', () => {
  expect(dashboard.length).toBeGreaterThan(20)
})

test('no file is named after what it is not about', () => {
  const vague = everything.filter((path) =>
    /\/(index|utils?|helpers?|types|common|misc)\.tsx?$/.test(path),
  )
  // The router requires this name for the route of '/'.
  expect(vague).toEqual(['src/routes/index.tsx'])
})

test('only src/api/client.ts makes requests, and src/boot.ts the first ones', () => {
  for (const path of dashboard) {
    if (path === 'src/api/client.ts' || path === 'src/boot.ts') continue
    expect(read(path), path).not.toMatch(
      /\bfetch\(|XMLHttpRequest|sendBeacon|EventSource|WebSocket/,
    )
  }
})

test('only src/api uses query keys', () => {
  for (const path of dashboard.filter((path) => !path.startsWith('src/api/'))) {
    expect(read(path), path).not.toMatch(/queryKey|mutationKey|setQueryData|invalidateQueries/)
  }
})

test('each query key and mutation key is written once', () => {
  const keys = dashboard.flatMap((path) =>
    [...read(path).matchAll(/(?:queryKey|mutationKey): \['([^']+)'/g)].map((match) => match[1]),
  )
  expect(keys.length).toBeGreaterThan(4)
  expect(new Set(keys).size).toBe(keys.length)
})

test('the server has no file of more than 300 lines, and few files outside its folders', () => {
  const server = sources('server')
  for (const path of server) {
    expect(read(path).split('\n').length - 1, path).toBeLessThanOrEqual(300)
  }
  const loose = server.filter((path) => dirname(path) === 'server')
  expect(loose).toContain('server/main.ts')
  expect(loose.length).toBeLessThanOrEqual(8)
})

test('each event to which server/log.ts gives a level is logged somewhere', () => {
  const events = read('server/log.ts').match(/(?<=^ {4}'|new Set\(\[')[^'\n]+(?=')/gm)
  expect(events?.length).toBeGreaterThan(20)
  const code = sources('server')
    .filter((path) => path !== 'server/log.ts')
    .map(read)
    .join('\n')
  expect(events?.filter((event) => !code.includes(`'${event}'`))).toEqual([])
})

test('each relative link of the documents leads to a file', () => {
  const documents = globSync(['{README,CONTRIBUTING,SECURITY}.md', 'docs/**/*.md'], { cwd: root })
  const links = documents.flatMap((document) =>
    // Without code, in which brackets are no links.
    [
      ...read(document)
        .replaceAll(/```.*?```|`[^`\n]*`/gs, '')
        .matchAll(/\]\(([^)\s]+)\)/g),
    ]
      .map(([, target = '']) => ({ document, file: target.replace(/#.*/, '') }))
      .filter(({ file }) => file !== '' && !/^\w+:/.test(file)),
  )
  expect(links.length).toBeGreaterThan(50)
  const broken = links.filter(
    ({ document, file }) => !existsSync(join(root, dirname(document), file)),
  )
  expect(broken).toEqual([])
})

test('only the settings name a service', () => {
  const naming = [...dashboard, 'index.html'].filter((path) =>
    /hubspot|slack/i.test(read(path).replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '')),
  )
  expect(naming).toEqual(['src/parse-config.ts'])
})

test('no type check is switched off', () => {
  for (const path of everything) {
    expect(read(path), path).not.toMatch(/@ts-(ignore|nocheck|expect-error)/)
  }
})

test('only contract/ writes the paths of calls', () => {
  for (const path of dashboard) {
    const code = read(path).replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '')
    expect(code, path).not.toMatch(/['`]\/?api\/(\$|notifications)|['`]\/health['`]/)
  }
})

test('the nginx configuration of docs/hosting.md proxies every path of the backend', () => {
  expect(read('docs/hosting.md')).toContain(`location ~ ^/(${backendRoots.join('|')})(/|$) {`)
})
