import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { runInNewContext } from 'node:vm'
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
/** A file without its comments. */
const code = (path: string) => read(path).replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '')

const dashboard = sources('src')
const everything = ['src', 'contract', 'server', 'stand-ins'].flatMap(sources)
const callers = ['src/api/client.ts', 'src/boot.ts']

test.each<[string, string[], RegExp, typeof read?]>([
  [
    'only src/api/client.ts makes requests, and src/boot.ts the first ones',
    dashboard.filter((path) => !callers.includes(path)),
    /\bfetch\(|XMLHttpRequest|sendBeacon|EventSource|WebSocket/,
  ],
  [
    'only src/api uses query keys',
    dashboard.filter((path) => !path.startsWith('src/api/')),
    /queryKey|mutationKey|setQueryData|invalidateQueries/,
  ],
  [
    // Biome's rules for Query do not know our own hooks, and there is none for keys.
    'no component takes the rest of a query result, or all of it, and renders at each change',
    dashboard,
    /\.\.\.\w+\s*\}\s*=\s*use(?!SingleMutation)[A-Z]|\.\.\.use[A-Z]\w*\(/,
  ],
  [
    'only src/ui/focus.ts moves the focus: it keeps the place of what the reader sees',
    dashboard.filter((path) => path !== 'src/ui/focus.ts'),
    /\.focus\(/,
  ],
  [
    'no text of the dashboard has a weight that common fonts show as regular',
    [...dashboard, 'src/styles.css'],
    /font-medium|font-weight: 500/,
  ],
  [
    'only server/settings/env-file.ts reads .env, also for the build',
    [...everything, ...sources('scripts'), 'vite.config.ts'].filter(
      (path) => !path.endsWith('/env-file.ts'),
    ),
    /process\.loadEnvFile|['"`]\.env['"`]/,
    code,
  ],
  [
    // src/tsconfig.json refuses functions of a newer JavaScript, but its DOM is that of all browsers.
    'the dashboard calls no function of the browser that the oldest supported ones lack',
    [...dashboard, ...sources('contract')],
    /URL\.(canParse|parse)\(|AbortSignal\.any\(|Promise\.try\(|startViewTransition|\bscheduler\.|\bnavigation\.(navigate|addEventListener)|requestIdleCallback|Sanitizer|setHTML\(/,
    code,
  ],
  ['no type check is switched off', everything, /@ts-(ignore|nocheck|expect-error)/],
  ['the dashboard names no service', [...dashboard, 'index.html'], /hubspot|slack/i, code],
  [
    'what serves every CRM and every chat names none, in comments either, and nothing that only one has',
    sources('server')
      .filter((path) => !path.startsWith('server/providers/'))
      // It counts the blocks of a disk.
      .filter((path) => path !== 'server/database/room.ts'),
    /hubspot|pipedrive|slack|teams|google.?chat|mattermost|discord|\bblocks?\b|mrkdwn/i,
  ],
  [
    'only contract/ writes the paths of calls',
    [...dashboard, ...sources('tests/msw')],
    /['`]\*?\/?api\/(\$|:|notifications|session)|['`]\*?\/health['`]/,
    code,
  ],
])('%s', (_, paths, forbidden, look = read) => {
  expect(paths.filter((path) => forbidden.test(look(path)))).toEqual([])
})

test('no file is named after what it is not about', () => {
  const vague = everything.filter((path) =>
    /\/(index|utils?|helpers?|types|common|misc)\.tsx?$/.test(path),
  )
  // The router requires this name for the route of '/'.
  expect(vague).toEqual(['src/routes/index.tsx'])
})

test('each query key and mutation key is written once', () => {
  const keys = dashboard.flatMap((path) =>
    [...read(path).matchAll(/(?:queryKey|mutationKey): \[(?:\.\.\.\w+, )?'([^']+)'/g)].map(
      (match) => match[1],
    ),
  )
  expect(keys.length).toBeGreaterThan(4)
  expect(new Set(keys).size).toBe(keys.length)
})

test('the server has no file of more than 300 lines, and few files outside its folders', () => {
  const server = sources('server')
  for (const path of server) {
    // A list of tables is read one by one.
    if (path === 'server/database/schema.ts') continue
    expect(read(path).split('\n').length - 1, path).toBeLessThanOrEqual(300)
  }
  const loose = server.filter((path) => dirname(path) === 'server')
  expect(loose).toContain('server/main.ts')
  expect(loose.length).toBeLessThanOrEqual(8)
})

const documents = globSync(['{README,CONTRIBUTING,SECURITY}.md', 'docs/**/*.md'], { cwd: root })

test('each npm script that a document or a message names exists', () => {
  const { scripts } = JSON.parse(read('package.json'))
  const named = [...documents, ...everything, ...sources('scripts')].flatMap((path) =>
    [...read(path).matchAll(/npm run ([\w:]+)/g)].map(([, name = '']) => name),
  )
  expect(named.length).toBeGreaterThan(50)
  expect([...new Set(named)].filter((name) => !(name in scripts))).toEqual([])
})

test('a command that runs long is all that npm runs, and takes the place of its shell, so that it gets a signal to npm', () => {
  const { scripts } = JSON.parse(read('package.json'))
  for (const name of ['start', 'dev', 'test', 'test:all', 'simulate', 'attack', 'bench']) {
    expect(scripts[name], name).toMatch(/^exec node [^&;|]+$/)
  }
})

test('each program of the server says what is missing if npm has not installed its Node', () => {
  const { scripts } = JSON.parse(read('package.json'))
  for (const name of ['start', 'relay', 'data', 'doctor']) {
    expect(scripts[name], name).toMatch(/^(exec )?node scripts\/run\.cjs server\/[\w/]+\.ts$/)
  }
  expect(scripts.prestart).toMatch(/^node scripts\/run\.cjs /)
  const said: string[] = []
  const process = {
    versions: { node: '20.19.2' },
    argv: ['node', 'run.cjs', 'none.ts'],
    exitCode: 0,
  }
  const console = { error: (text: string) => said.push(text) }
  const require = createRequire(import.meta.url)
  runInNewContext(read('scripts/run.cjs'), { process, console, require })
  expect([process.exitCode, ...said]).toEqual([
    1,
    'Dealbell needs Node 24, and this is Node 20.19.2. The project brings its own Node, whose install script has not run. With npm, run: npm rebuild node --ignore-scripts=false',
  ])
})

test('the changelog and the guide to a release name the version of package.json', () => {
  const { version } = JSON.parse(read('package.json'))
  expect(read('CHANGELOG.md').match(/^## \[(\d.*?)\]/m)?.[1]).toBe(version)
  const [making = ''] = read('docs/operating/installing.md').split('## Upgrade')
  expect(new Set(making.match(/(?<=dealbell-)\d+\.\d+\.\d+/g))).toEqual(new Set([version]))
})

test('each relative link of the documents leads to a file', () => {
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

test('the nginx configuration of docs/hosting.md proxies the backend, and keeps the rest inside', () => {
  const docs = read('docs/hosting.md')
  const isInside = (name: string) => name === 'relay' || name === 'metrics'
  const proxied = backendRoots.filter((name) => !isInside(name))
  expect(docs).toContain(`location ~ ^/(${proxied.join('|')})(/|$) {\n    proxy_pass`)
  const inside = backendRoots.filter(isInside)
  expect(docs).toContain(`location ~ ^/(${inside.join('|')})(/|$) {\n    return 404;`)
})

// During a rolling upgrade, a process of the former release works on the migrated database.
const removes =
  /\bdrop\b|\brename\b|\bset not null\b|\btype\b|\btruncate\b|\badd column\b(?!.*\bdefault\b).*\bnot null\b/is

test.each([
  ['DROP INDEX "a";', true],
  ['ALTER TABLE "a" DROP COLUMN "b";', true],
  ['ALTER TABLE "a" RENAME COLUMN "b" TO "c";', true],
  ['ALTER TABLE "a" ALTER COLUMN "b" SET DATA TYPE text;', true],
  ['ALTER TABLE "a" ALTER COLUMN "b" SET NOT NULL;', true],
  ['ALTER TABLE "a" ADD COLUMN "b" text NOT NULL;', true],
  ['ALTER TABLE "a" ADD COLUMN "b" text DEFAULT \'x\' NOT NULL;', false],
  ['ALTER TABLE "a" ADD COLUMN "b" text;', false],
  ['CREATE TABLE "a" ("b" text NOT NULL);', false],
])('the convention for migrations says of %s whether it removes something: %s', (statement, is) => {
  expect(removes.test(statement)).toBe(is)
})

test('no two migrations create an index of one name: servers look only whether it exists', () => {
  const statements = globSync('server/database/migrations/*.sql', { cwd: root }).map(read).join()
  const names = [...statements.matchAll(/create index "(\w+)"/gi)].map(([, name]) => name)
  expect(names.length).toBeGreaterThan(10)
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
})

test('a migration only adds; what it removes has been unused since a release that it names', () => {
  const folder = 'server/database/migrations'
  const migrations = globSync(`${folder}/*.sql`, { cwd: root })
  expect(migrations.length).toBeGreaterThan(0)
  for (const path of migrations) {
    for (const statement of read(path).split('--> statement-breakpoint')) {
      if (/^-- Unused since \d+\.\d+\.\d+/m.test(statement)) continue
      expect(statement.replaceAll(/^--.*$/gm, ''), path).not.toMatch(removes)
    }
  }
})
