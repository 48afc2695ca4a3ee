import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Plugin } from 'vite'
import { everyAnswer, pagePolicy, strictTransportSecurity } from '../contract/page-headers.ts'
import type { Config } from '../src/parse-config.ts'

const immutable = 'public, max-age=31536000, immutable'

/**
 * Adds the integrity of every script and style sheet to the page, and writes the files that make other
 * hosts send the same headers as the project's own server (docs/hosting.md).
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
        for (const name of await readdir(dir, { recursive: true })) {
          if (!name.endsWith('.html')) continue
          const page = join(dir, name)
          await writeFile(page, await withIntegrity(await readFile(page, 'utf8'), dir))
        }
        const policies = {
          everywhere: pagePolicy(origins, '/'),
          contact: pagePolicy(origins, '/contact'),
        }
        const assets = await readdir(join(dir, 'assets'))
        await writeFile(join(dir, '_headers'), headersFile(policies, assets))
        await writeFile(join(dir, '_redirects'), redirectsFile)
        await writeFile(join(dir, 'nginx-headers.conf'), nginxSnippet(policies))
      },
    },
  }
}

/** @throws Error if the page names a script or style sheet that the build did not write. */
async function withIntegrity(html: string, folder: string): Promise<string> {
  let page = html
  const loading =
    /^<script|rel="(?:modulepreload|stylesheet)"|as="(?:script|style)"|href="[^"]*\.js"/
  for (const [tag] of html.matchAll(/<(?:script|link)\b[^>]*>/g)) {
    if (!loading.test(tag)) continue
    const address = /\s(?:src|href)="(\/[^"?#]*)"/.exec(tag)?.[1]
    if (address === undefined || !existsSync(join(folder, address))) {
      throw new Error(`The page loads a file that the build did not write: ${tag}`)
    }
    const integrity = await integrityOf(join(folder, address))
    // Use a function because a replacement text interprets `$`.
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

/** The `_headers` file of Netlify and Cloudflare Pages: a path, then its headers, indented. */
function headersFile({ everywhere, contact }: Policies, assets: readonly string[]): string {
  const common = { ...everyAnswer, 'Strict-Transport-Security': strictTransportSecurity }
  const lines = Object.entries(common).map(([name, value]) => `  ${name}: ${value}`)
  return `# Written by the build. These hosts use https, so HSTS is always sent.
/*
  Content-Security-Policy: ${everywhere}
${lines.join('\n')}

# The frame of the contact form. On hosts that send the headers of all matching rules, '!' removes the
# stricter policy first. On the others the last rule wins and they ignore that line.
${['/contact', '/contact/']
  .map((path) => `${path}\n  ! Content-Security-Policy\n  Content-Security-Policy: ${contact}`)
  .join('\n')}

# Each file by its name: these hosts apply a rule to every answer, and a cache must not keep the page that
# they send in place of a missing script.
${assets.map((name) => `/assets/${name}\n  Cache-Control: ${immutable}`).join('\n')}
`
}

/** The `_redirects` file of Netlify: what to answer where there is no file. */
const redirectsFile = `# Written by the build. Cloudflare Pages ignores both rules with a warning and answers with the page by
# itself. It would follow any other rule even where there is a file.
/assets/* /index.html 404
/* /index.html 200
`

/** For `include` in nginx's server block. It tests the requested address, not the file that is sent. */
function nginxSnippet({ everywhere, contact }: Policies): string {
  const common = Object.entries(everyAnswer)
  return `# Written by the build, for the server block: include /path/to/dist/nginx-headers.conf;
# A location with an add_header of its own inherits none of these; include this file there too.
set $dealbell_policy "${everywhere}";
if ($request_uri ~* "^/contact/?(\\?|$)") {
  set $dealbell_policy "${contact}";
}
# nginx does not send an empty header. $https is set if nginx itself terminates TLS; otherwise the proxy
# that does so must send HSTS.
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
