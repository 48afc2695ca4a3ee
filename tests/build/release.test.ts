import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseAst } from 'vite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import project from '../../package.json' with { type: 'json' }
import { findSystemdAnalyze } from '../../scripts/programs.ts'
import { databaseKinds, newFolder, newPostgresDatabase } from '../database.ts'
import { makeNext, nextVersion } from '../next-release.ts'
import { dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { connectAccount, drained, startServer } from '../relay/process.ts'
import { companyNetwork, launch } from '../server/program.ts'
import { defaultSettings } from './build-page.ts'
import { copyProject } from './copy-project.ts'

const root = resolve(import.meta.dirname, '../..')
let folder: string
/** The release, at a path with a space that only its owner can enter. */
let release: string
let archive: string
/** A PATH with Node and without npm. */
let path: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-release-'))
  makeRelease(root)
  release = join(folder, 'a folder', 'dealbell')
  await mkdir(join(folder, 'a folder'), { mode: 0o700 })
  const { version } = project
  await rename(join(folder, `dealbell-${version}`), release)
  archive = join(folder, `dealbell-${version}.tar.gz`)
  path = join(folder, 'programs')
  await mkdir(path)
  await symlink(process.execPath, join(path, 'node'))
  for (const name of ['dirname', 'readlink', 'unshare', 'id', 'sed', 'grep', 'tac', 'tail']) {
    const { stdout } = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' })
    if (stdout !== '') await symlink(stdout.trim(), join(path, name))
  }
}, 300_000)

/** Writes the release of this project, and its archive, to the folder. */
function makeRelease(source: string): void {
  // Such an umask hides new files from other users.
  const make = ['-c', 'umask 077; exec "$@"', 'sh', process.execPath]
  const made = spawnSync('sh', [...make, 'scripts/release.ts', '--to', folder], {
    cwd: source,
    env: { ...process.env, ...defaultSettings, VITEST: undefined },
    encoding: 'utf8',
  })
  expect(made.status, made.stderr).toBe(0)
}
afterAll(() => rm(folder, { recursive: true, force: true }))

test('a release starts without npm and without network, and serves the dashboard', async () => {
  const env = { ...companyNetwork, PATH: path, PORT: '0', DATA_DIR: join(folder, 'data') }
  const program = join(release, 'bin/dealbell')
  // Not even loopback works there, so nothing can answer the server.
  const noNetwork = ['--map-root-user', '--net', '--']
  const canUnshare = spawnSync('unshare', [...noNetwork, 'true']).status === 0
  const alone = canUnshare
    ? launch([...noNetwork, program], env, { program: 'unshare', cwd: folder })
    : launch([], env, { program, cwd: folder })
  await alone.listens()
  await alone.kill()

  const server = launch(['start'], env, { program, cwd: folder })
  const url = await server.listens()
  expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: 'ok' })
  expect(await (await fetch(url)).text()).toContain('<title>Dealbell</title>')
  expect((await fetch(`${url}/sandbox/slack`)).status).toBe(200)
  const { port } = new URL(url)
  /** @returns what a command says, and how it ends. */
  async function run(...args: string[]) {
    const command = launch(args, { ...env, PORT: port }, { program, cwd: folder })
    const code = await command.exited
    return `${command.output}exit ${code}`
  }
  const status = /"pending": 0,.*exit 0$/s
  expect(await run('relay', 'status')).toMatch(status)
  expect(await run('doctor')).toMatch(/exit 0$/)
  // The health checks of the containers. There, a shell finds `dealbell`.
  const [Containerfile, ofRelease, compose] = await Promise.all(
    [join(root, 'Containerfile'), join(release, 'Containerfile'), join(root, 'compose.yaml')].map(
      (file) => readFile(file, 'utf8'),
    ),
  )
  const installed = (text = '') => text.slice(text.indexOf('RUN install'))
  expect(installed(ofRelease)).toBe(installed(Containerfile))
  expect(installed(ofRelease)).toContain('ENTRYPOINT')
  const checks = [
    Containerfile?.match(/^HEALTHCHECK .* CMD (.*)/m)?.[1],
    compose?.match(/"CMD-SHELL", "(dealbell.*)"\]/)?.[1],
  ]
  const inContainer = { ...env, PORT: port, PATH: `${path}:${join(release, 'bin')}` }
  const health = () =>
    Promise.all(
      checks.map(
        (check) =>
          launch(['-c', `${check}`], inContainer, { program: '/bin/sh', cwd: folder }).exited,
      ),
    )
  expect(await health()).toEqual([0, 0])
  server.child.kill('SIGTERM')
  expect(await server.exited, server.output).toBe(0)
  expect(await health()).toEqual([1, 1])
  expect(await run('data', 'export', join(folder, 'backup.jsonl'))).toMatch(/exit 0$/)

  expect(await run('--help')).toBe('Usage: dealbell start|relay|data|doctor …\nexit 0')
  const { version } = JSON.parse(await readFile(join(release, 'package.json'), 'utf8'))
  expect(await run('--version')).toBe(`${version}\nexit 0`)
  // There is no npm beside a release.
  expect(await run('relay', 'unknown')).toMatch(/^Usage: dealbell relay status {3}what waits/)
}, 180_000)

describe('an unpacked tarball', () => {
  let next: string
  beforeAll(async () => {
    const source = join(folder, 'next')
    copyProject(source)
    await symlink(join(root, 'node_modules'), join(source, 'node_modules'))
    makeNext(source)
    makeRelease(source)
    next = unpacked(nextVersion)
  }, 300_000)

  function unpacked(version: string): string {
    const to = join(folder, 'unpacked')
    mkdirSync(to, { recursive: true })
    const tar = ['-xzf', join(folder, `dealbell-${version}.tar.gz`), '-C', to]
    expect(spawnSync('tar', tar).status).toBe(0)
    return join(to, `dealbell-${version}`)
  }

  test.each(databaseKinds)(
    'tells of changes on %s, and is upgraded while they come: none is lost or doubled',
    async (kind) => {
      const outside = await openOutside()
      const database =
        kind === 'PGlite' ? { folder: await newFolder() } : { url: await newPostgresDatabase() }
      const start = (release: string) =>
        startServer({ outside, database, release, env: { PATH: path } })
      const former = await start(unpacked(project.version))
      let server = former
      let isOver = false
      onTestFinished(async () => {
        isOver = true
        await Promise.all([former.kill(), server.kill()])
        await outside.close()
      })
      const portals = [0, 1, 2, 3, 4]
      for (const portal of portals) await connectAccount(server, { portal, channel: `C${portal}` })
      /** HubSpot tells again what was not stored. */
      async function tell(deal: number): Promise<void> {
        const change = stageChange(deal, { portal: deal % portals.length })
        while (!isOver && (await server.tell([change])) !== 204) await delay(100)
      }
      const told: Promise<void>[] = []
      const telling = setInterval(() => told.push(tell(told.length)), 20)
      onTestFinished(() => clearInterval(telling))
      const toldMore = async (count: number) => {
        const enough = told.length + count
        await vi.waitFor(() => expect(told.length).toBeGreaterThan(enough), 60_000)
      }
      await toldMore(50)
      // A folder belongs to one process. On PostgreSQL, both work for a while.
      if (kind === 'PGlite') await former.stop()
      server = await start(next)
      await toldMore(50)
      await former.stop()
      await toldMore(50)
      clearInterval(telling)
      await Promise.all(told)
      expect(await drained(server, 60_000)).toMatchObject({
        sent: told.length,
        dead: 0,
        ignored: 0,
      })
      expect(outside.posts.flatMap(dealsIn).toSorted((a, b) => a - b)).toEqual([...told.keys()])
      expect(server.output.join('\n')).toContain(` ${nextVersion} listens on `)
    },
    180_000,
  )
})

test('a release contains what the server needs, and no tool of the development', async () => {
  const licenses = await readFile(join(release, 'licenses.txt'), 'utf8')
  const packages = [...licenses.matchAll(/^# (\S+) \d/gm)].map(([, name]) => name)
  const needed = ['hono', 'drizzle-orm', 'pg', 'valibot', 'react', '@tanstack/react-router']
  expect(packages).toEqual(expect.arrayContaining(needed))
  const tools =
    /^(vite|rolldown|esbuild|tailwindcss|msw|postcss|@(vitejs|tailwindcss|playwright)\/.*|playwright.*)$/
  expect(packages.filter((name) => tools.test(name ?? ''))).toEqual([])
  const { stdout } = spawnSync('du', ['-sk', release], { encoding: 'utf8' })
  expect(Number.parseInt(stdout, 10)).toBeLessThan(30_000)
})

test('the tarball belongs to root, and everybody may read it', () => {
  const sums = spawnSync('sha256sum', ['--check', `${archive}.sha256`], { cwd: folder })
  expect(sums.status ?? 'no sha256sum').not.toBe(1)
  const { stdout } = spawnSync('tar', ['-tvzf', archive, '--numeric-owner'], { encoding: 'utf8' })
  const lines = stdout.trim().split('\n')
  expect(lines.length).toBeGreaterThan(50)
  expect(lines.filter((line) => !/^[d-]rw[x-](r-[x-]){2} +0[/ ]/.test(line))).toEqual([])
})

test('a release on an older Node says which one it needs', async () => {
  const file = join(release, 'package.json')
  const text = await readFile(file, 'utf8')
  expect(text).toContain('"node": ">=24"')
  await writeFile(file, text.replace('>=24', '>=99'))
  const program = launch([], { PATH: path }, { program: join(release, 'bin/dealbell') })
  expect(await program.exited).toBe(1)
  expect(program.output).toMatch(/^Dealbell needs Node 99 or later, but this is Node 24\..*\n$/)
  await writeFile(file, text)

  // A Node of any age reads the file that says so.
  const checks = await readFile(join(release, 'bin/dealbell.cjs'), 'utf8')
  const syntax = parseAst(checks, { sourceType: 'script' })
  const types = [...JSON.stringify(syntax).matchAll(/"(?:type|kind)":"(\w+)"/g)]
  const newer =
    /^(let|const|Arrow.*|Template.*|Import.*|Await.*|Class.*|Chain.*|Spread.*|.*Pattern|ForOf.*)$/
  expect(types.map(([, type]) => type ?? '').filter((type) => newer.test(type))).toEqual([])
  expect(checks).not.toMatch(/,\s*\)/)
})

test('the containers build the dashboard with the same settings as the release', async () => {
  const read = (file: string) => readFile(join(root, file), 'utf8')
  const settings = (text: string) => new Set(text.match(/VITE_[A-Z_]+/g))
  const names = settings(await read('.env.example'))
  expect(names.size).toBeGreaterThan(3)
  for (const file of ['Containerfile', 'compose.yaml']) {
    expect(settings(await read(file)), file).toEqual(names)
  }
  // What compose.yaml sets or reads is a setting of the server, or of the image of PostgreSQL.
  const known = new Set((await read('.env.example')).match(/\b[A-Z][A-Z_]+(?==)/g))
  const set = (await read('compose.yaml')).match(/\b[A-Z]+(?:_[A-Z]+)*(?=: |[:}]-|:\?)/g) ?? []
  expect(set.length).toBeGreaterThan(10)
  expect(
    set.filter((name) => !known.has(name) && !/^POSTGRES_(USER|PASSWORD)$/.test(name)),
  ).toEqual([])
})

test('a command of root runs as the unit of systemd does that starts the release, and else as it is', async () => {
  const programs = join(folder, 'as root')
  await mkdir(programs)
  const unit = await readFile(join(release, 'dealbell.service'), 'utf8')
  /** @returns what `dealbell ARGS` becomes, with the arguments one a line. */
  async function dealbell(user: number, starts: string, ...args: string[]) {
    const dropIn =
      '\n# /etc/systemd/system/dealbell.service.d/override.conf\n[Service]\nEnvironment=HOST=::1\n'
    const installed = unit.replace('/opt/dealbell/bin/dealbell', starts) + dropIn
    await writeFile(join(folder, 'installed'), installed)
    const stubs = {
      id: `echo ${user}`,
      systemctl: `[ "$*" = "cat dealbell.service" ] && cat '${join(folder, 'installed')}'`,
      'systemd-run': `printf '%s\\n' "$@"`,
    }
    for (const [name, script] of Object.entries(stubs)) {
      await writeFile(join(programs, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    }
    const env = { PATH: `${programs}:${path}:/bin:/usr/bin` }
    return spawnSync(join(release, 'bin/dealbell'), args, { env, encoding: 'utf8' }).stdout
  }
  // As /opt/dealbell, it is a link.
  await symlink(release, join(folder, 'current'))
  const own = join(folder, 'current/bin/dealbell')
  const lines = (await dealbell(0, own, 'relay', 'account', 'a b')).trim().split('\n')
  const name = lines.find((line) => line.startsWith('--unit='))?.slice(7)
  expect(lines).toEqual([
    ...['--quiet', '--pipe', '--wait', '--collect', `--unit=${name}`],
    ...[
      'User=dealbell',
      'WorkingDirectory=/var/lib/dealbell',
      `Environment=HOST=127.0.0.1 DATA_DIR=/var/lib/dealbell ENCRYPTION_KEY_FILE=/run/credentials/${name}.service/encryption.key`,
      'EnvironmentFile=-/etc/dealbell/dealbell.env',
      'LoadCredential=encryption.key:/etc/dealbell/encryption.key',
      'UMask=0077',
      'DynamicUser=yes',
      'StateDirectory=dealbell',
      'StateDirectoryMode=0700',
      'Environment=HOST=::1',
    ].flatMap((property) => ['-p', property]),
    ...[join(path, 'node'), join(release, 'bin/dealbell.cjs'), 'relay', 'account', 'a b'],
  ])
  // Another user, another release, and what needs no settings.
  const version = /^\d+\.\d+\.\d+\n$/
  expect(await dealbell(1000, own, 'relay')).not.toContain('--unit')
  expect(await dealbell(0, '/bin/true', 'relay')).not.toContain('--unit')
  expect(await dealbell(0, own, '--version')).toMatch(version)
})

const systemdAnalyze = findSystemdAnalyze()

test.skipIf(systemdAnalyze === undefined)('the systemd unit is valid and sandboxed', async () => {
  const text = await readFile(join(release, 'dealbell.service'), 'utf8')
  const unit = join(folder, 'dealbell.service')
  await writeFile(unit, text.replace('/opt/dealbell/bin/dealbell', '/bin/true'))
  const analyze = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(systemdAnalyze ?? '', [...args, unit], {
      encoding: 'utf8',
    })
    return { status, output: stdout + stderr }
  }
  expect(analyze('verify')).toEqual({ status: 0, output: '' })
  // The threshold is ten times the exposure level.
  const security = analyze('security', '--offline=true', '--threshold=20')
  expect(security.status, security.output).toBe(0)
})
