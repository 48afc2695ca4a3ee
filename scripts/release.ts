// `npm run release` writes release/dealbell-VERSION and the same as a .tar.gz: the built page, the server as
// a few files, and PGlite. It needs neither npm nor node_modules. With `-- --with-node` it contains this Node too.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join, relative, sep } from 'node:path'
import { parseArgs } from 'node:util'
import { PGlite } from '@electric-sql/pglite'
import { build, type Plugin } from 'vite'
import { startParams } from '../server/database/synced-folder.ts'
import { expandHome } from '../server/settings/text-file.ts'

const root = join(import.meta.dirname, '..')
const { values: options } = parseArgs({
  options: {
    'with-node': { type: 'boolean', default: false },
    /** The folder in which the release is made (for tests). */
    to: { type: 'string', default: join(root, 'release') },
  },
})
const project = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const name = `dealbell-${project.version}`
const to = expandHome(options.to)
const release = join(to, name)

/** What `dealbell NAME` runs. */
const programs = ['main.ts', 'cli/relay.ts', 'cli/data.ts', 'doctor/doctor.ts']
  .map((file) => join(root, 'server', file))
  .filter((file) => existsSync(file))
/** It finds its WebAssembly beside its own file, so it stays a package. */
const pglite = '@electric-sql/pglite'

await rm(release, { recursive: true, force: true })
await mkdir(release, { recursive: true })
const packages = new Set<string>()
await buildPage()
await buildServer()
await copy('server/database/migrations')
await copy('stand-ins', (path) => !path.endsWith('.ts'))
await copy('server/api/address-page.css')
// docs/extending.md links it.
await copy('server/providers/addresses.md')
await copy('contract/colours.css')
for (const each of [
  'LICENSE',
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  '.env.example',
  'docs',
]) {
  await copy(each)
}
await cp(join(root, 'packaging'), release, { recursive: true })
await chmod(join(release, 'bin/dealbell'), 0o755)
await copy(`node_modules/${pglite}`, (path) => !/\.(map|cjs|d\.c?ts|md)$/.test(path))
await makeDatabase()
if (options['with-node']) await copyFile(process.execPath, join(release, 'bin/node'))
await writeFile(join(release, 'licenses.txt'), await licenses())
const [major] = process.versions.node.split('.')
const ofRelease = {
  name: project.name,
  version: project.version,
  license: project.license,
  private: true,
  type: 'module',
  // The server's tests run on this version.
  engines: { node: `>=${major}` },
}
await writeFile(join(release, 'package.json'), `${JSON.stringify(ofRelease, null, 2)}\n`)

// Who makes the release, and with which umask, must not decide who may read or change it.
run('chmod', '-R', 'u=rwX,go=rX', release)
const archive = `${release}.tar.gz`
const byRoot = isGnuTar() ? ['--owner=0', '--group=0'] : ['--uid=0', '--gid=0']
run('tar', ...byRoot, '--numeric-owner', '-czf', archive, '-C', to, name)
const sha256 = createHash('sha256')
  .update(await readFile(archive))
  .digest('hex')
// As `sha256sum --check` reads it.
await writeFile(`${archive}.sha256`, `${sha256}  ${basename(archive)}\n`)
console.log(`${release}: ${inMegabytes(await sizeOf(release))}`)
console.log(`${archive}: ${inMegabytes((await stat(archive)).size)}`)

function run(program: string, ...args: string[]) {
  const { status } = spawnSync(program, args, { stdio: 'inherit' })
  if (status !== 0) throw new Error(`${program} failed.`)
}

/** macOS has BSD's tar. */
function isGnuTar(): boolean {
  return spawnSync('tar', ['--version'], { encoding: 'utf8' }).stdout.includes('GNU')
}

async function copy(path: string, isWanted: (path: string) => boolean = () => true) {
  const from = join(root, path)
  await cp(from, join(release, path), {
    recursive: true,
    filter: (each) => isWanted(relative(root, each)),
  })
}

/** A first start then needs no more memory than a later one. */
async function makeDatabase(): Promise<void> {
  const client = await PGlite.create({ startParams })
  const folder = await client.dumpDataDir('gzip')
  await client.close()
  const to = join(release, 'server/database/new-database.tar.gz')
  await writeFile(to, Buffer.from(await folder.arrayBuffer()))
}

async function buildPage(): Promise<void> {
  await build({
    root,
    configLoader: 'native',
    logLevel: 'warn',
    plugins: [listPackages()],
    build: { outDir: join(release, 'dist') },
  })
}

/** Writes each program as one file, beside chunks that they share. */
async function buildServer(): Promise<void> {
  await build({
    configFile: false,
    envDir: false,
    root,
    publicDir: false,
    logLevel: 'warn',
    plugins: [sameFolders(), namesOwnCommands(), listPackages()],
    ssr: { noExternal: true, external: [pglite] },
    build: {
      ssr: true,
      target: `node${process.versions.node}`,
      outDir: join(release, 'server'),
      emptyOutDir: false,
      // Names in a stack trace stay those of the source.
      minify: false,
      rolldownOptions: {
        input: programs,
        output: { entryFileNames: '[name].js', chunkFileNames: 'chunk-[name].js' },
      },
    },
  })
}

/** A module in the bundle finds its files, such as migrations, at their place in the project. */
function sameFolders(): Plugin {
  return {
    name: 'dealbell:same-folders',
    transform(code, id) {
      if (!id.startsWith(root) || id.includes('node_modules')) return
      if (!code.includes('import.meta')) return
      if (/import\.meta\.(?!dirname\b)/.test(code)) {
        throw new Error(`${id} may use import.meta.dirname only: the release moves its code.`)
      }
      const folder = relative(join(root, 'server'), dirname(id)).split(sep).join('/')
      return code.replaceAll(
        'import.meta.dirname',
        `(import.meta.dirname + ${JSON.stringify(`/${folder}`)})`,
      )
    },
  }
}

/** Where a message names a command, a release names its own. It has no npm. */
function namesOwnCommands(): Plugin {
  return {
    name: 'dealbell:own-commands',
    transform(code, id) {
      if (!id.startsWith(root) || id.includes('node_modules')) return
      return code
        .replaceAll('npm start', 'dealbell start')
        .replaceAll(/npm run (relay|data|doctor)( --)?/g, 'dealbell $1')
    },
  }
}

/** Notes the packages whose code is in a build. */
function listPackages(): Plugin {
  return {
    name: 'dealbell:list-packages',
    generateBundle(_options, bundle) {
      for (const output of Object.values(bundle)) {
        if (output.type !== 'chunk') continue
        for (const id of output.moduleIds) {
          const folder = /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(id.split(sep).join('/'))?.[0]
          if (folder !== undefined) packages.add(folder.replaceAll('\0', ''))
        }
      }
    },
  }
}

/** The licenses ask that their texts go with the code. */
async function licenses(): Promise<string> {
  const texts: string[] = []
  for (const folder of [...packages].toSorted()) {
    const { name, version, license } = JSON.parse(
      await readFile(join(folder, 'package.json'), 'utf8'),
    )
    const file = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each))
    const text = file === undefined ? '' : await readFile(join(folder, file), 'utf8')
    texts.push(`# ${name} ${version} (${license})\n\n${text.trim()}\n`)
  }
  if (options['with-node']) {
    const text = await readFile(licenseOfNode(), 'utf8')
    texts.push(`# Node ${process.versions.node}, with what it contains\n\n${text.trim()}\n`)
  }
  return texts.join('\n')
}

function licenseOfNode(): string {
  const folder = join(dirname(process.execPath), '..')
  // The package `node` links to the program in the second one.
  const ofPackage = `node_modules/node-${process.platform}-${process.arch}`
  const path = [folder, join(folder, ofPackage)]
    .map((each) => join(each, 'LICENSE'))
    .find((each) => existsSync(each))
  if (path === undefined) throw new Error(`There is no LICENSE of ${process.execPath}.`)
  return path
}

async function sizeOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = files.map(async (file) => (await stat(join(file.parentPath, file.name))).size)
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}

function inMegabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`
}
