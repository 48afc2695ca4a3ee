import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Plugin } from 'vite'
import { everyAnswer, pagePolicy, strictTransportSecurity } from '../contract/page-headers.ts'
import type { Config } from '../src/parse-config.ts'

const immutable = 'public, max-age=31536000, immutable'

/**
 * Adds the integrity of every script and style sheet to the page. Writes files for other hosts, so
 * that they send the same headers as the project's own server (docs/hosting.md).
 */
export function security(origins: Config): Plugin {
  return {
    name: 'dealbell:security',
    apply: 'build',
    writeBundle: {
      // After all plugins that change a file or add a page.
      order: 'post',
      sequential: true,
      async handler({ dir }) {
        if (dir === undefined) throw new Error('The build has no folder to write to.')
        const assets = await readdir(join(dir, 'assets'))
        const importMap = await importMapOf(dir, assets)
        for (const name of await readdir(dir, { recursive: true })) {
          if (!name.endsWith('.html')) continue
          const page = join(dir, name)
          await writeFile(page, await withIntegrity(await readFile(page, 'utf8'), dir, importMap))
        }
        const built = { ...origins, importMapSource: await importMapSourceOf(dir) }
        const policies = {
          everywhere: pagePolicy(built, '/'),
          contact: pagePolicy(built, '/contact'),
        }
        await writeFile(join(dir, '_headers'), headersFile(policies, assets))
        await writeFile(join(dir, '_redirects'), redirectsFile)
        await writeFile(join(dir, 'nginx-headers.conf'), nginxSnippet(policies))
      },
    },
  }
}

/** Returns the import map with the integrity of all scripts. HTML has no attribute for imported scripts. */
async function importMapOf(folder: string, assets: readonly string[]): Promise<string> {
  const integrity: Record<string, string> = {}
  for (const name of assets.filter((name) => name.endsWith('.js'))) {
    integrity[`/assets/${name}`] = await integrityOf(join(folder, 'assets', name))
  }
  return `<script type="importmap">${JSON.stringify({ integrity })}</script>`
}

/**
 * Returns the hash of the page's import map as a source for `script-src`.
 * @throws Error if the page has no import map.
 */
export async function importMapSourceOf(folder: string): Promise<string> {
  const html = await readFile(join(folder, 'index.html'), 'utf8')
  const [, importMap] = /<script type="importmap">(.*?)<\/script>/s.exec(html) ?? []
  if (importMap === undefined) throw new Error(`The page in ${folder} has no import map.`)
  return `'sha256-${createHash('sha256').update(importMap).digest('base64')}'`
}

/**
 * Adds the integrity to each tag, and the import map. The map comes before the main script, because browsers
 * ignore it for scripts that load already.
 * @throws Error if the page names a script or style sheet that the build did not write.
 */
async function withIntegrity(html: string, folder: string, importMap: string): Promise<string> {
  let page = html.replace('<script type="module"', (main) => `${importMap}\n    ${main}`)
  const loading =
    /^<script|rel="(?:modulepreload|stylesheet)"|as="(?:script|style)"|href="[^"]*\.js"/
  for (const [tag] of html.matchAll(/<(?:script|link)\b[^>]*>/g)) {
    if (!loading.test(tag)) continue
    const address = /\s(?:src|href)="(\/[^"?#]*)"/.exec(tag)?.[1]
    if (address === undefined || !existsSync(join(folder, address))) {
      throw new Error(`The page loads a file that the build did not write: ${tag}`)
    }
    const integrity = await integrityOf(join(folder, address))
    // Use a function, because `$` has a special meaning in a replacement text.
    page = page.replace(tag, () => `${tag.replace(/\s*\/?>$/, '')} integrity="${integrity}">`)
  }
  return page
}

async function integrityOf(path: string): Promise<string> {
  const hash = createHash('sha384').update(await readFile(path))
  return `sha384-${hash.digest('base64')}`
}

interface Policies {
  everywhere: string
  contact: string
}

/** The `_headers` file of Netlify and Cloudflare Pages: each path, then its indented headers. */
function headersFile({ everywhere, contact }: Policies, assets: readonly string[]): string {
  const common = { ...everyAnswer, 'Strict-Transport-Security': strictTransportSecurity }
  const lines = Object.entries(common).map(([name, value]) => `  ${name}: ${value}`)
  return `# Written by the build. These hosts use https, so HSTS is always sent.
/*
  Content-Security-Policy: ${everywhere}
${lines.join('\n')}

# Only /contact may frame the contact form. Some hosts send the headers of all matching
# rules. There, the '!' line removes the stricter policy first. Other hosts ignore this line and
# use the last rule.
${['/contact', '/contact/']
  .map((path) => `${path}\n  ! Content-Security-Policy\n  Content-Security-Policy: ${contact}`)
  .join('\n')}

# One rule for each file. These hosts apply a rule to every answer, also to the page that they send
# for a missing script. No cache may keep that page.
${assets.map((name) => `/assets/${name}\n  Cache-Control: ${immutable}`).join('\n')}
`
}

/** The `_redirects` file of Netlify: the answers for addresses without a file. */
const redirectsFile = `# Written by the build. Cloudflare Pages warns of both rules and
# ignores them. It sends the page without them. It would follow any other rule even if the file
# exists.
/assets/* /index.html 404
/* /index.html 200
`

/**
 * For `include` in nginx's server block. Its conditions test the requested address, not the file.
 */
function nginxSnippet({ everywhere, contact }: Policies): string {
  const common = Object.entries(everyAnswer)
  return `# Written by the build, for the server block: include /path/to/dist/nginx-headers.conf;
# A location with its own add_header inherits none of these headers. Include this file there too.
set $dealbell_policy "${everywhere}";
if ($request_uri ~* "^/contact/?(\\?|$)") {
  set $dealbell_policy "${contact}";
}
# nginx sends no empty header. $https is set only if nginx itself terminates TLS. Otherwise the
# proxy that terminates TLS must send HSTS.
set $dealbell_hsts "";
if ($https) {
  set $dealbell_hsts "${strictTransportSecurity}";
}
set $dealbell_cache "no-cache";
if ($request_uri ~ "^/assets/") {
  set $dealbell_cache "${immutable}";
}
add_header Content-Security-Policy $dealbell_policy always;
${common.map(([name, value]) => `add_header ${name} "${value}" always;`).join('\n')}
add_header Strict-Transport-Security $dealbell_hsts always;
# Without "always", so that caches keep no errors.
add_header Cache-Control $dealbell_cache;
`
}
