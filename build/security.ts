import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Plugin } from 'vite'
import { everyAnswer, pagePolicy, strictTransportSecurity } from '../contract/page-headers.ts'
import type { Config } from '../src/parse-config.ts'

const immutable = 'public, max-age=31536000, immutable'

/**
 * The last step of the build: gives every script and stylesheet that a page names its integrity, and
 * writes down the headers with which whoever serves the folder is as safe as the project's own server.
 */
export function security({ apiUrl, contactFormUrl }: Config): Plugin {
  const origins = { apiUrl, contactFormUrl }
  return {
    name: 'dealbell:security',
    apply: 'build',
    writeBundle: {
      // After everything that still changes a file or adds a page.
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
        // For the project's own server, which makes the policy of each address itself.
        await writeFile(join(dir, '.origins.json'), `${JSON.stringify(origins)}\n`)
      },
    },
  }
}

/** @throws Error when a page names a script or stylesheet that the build did not make. */
async function withIntegrity(html: string, folder: string): Promise<string> {
  let page = html
  const loading =
    /^<script|rel="(?:modulepreload|stylesheet)"|as="(?:script|style)"|href="[^"]*\.js"/
  for (const [tag] of html.matchAll(/<(?:script|link)\b[^>]*>/g)) {
    if (!loading.test(tag)) continue
    const address = /\s(?:src|href)="(\/[^"?#]*)"/.exec(tag)?.[1]
    if (address === undefined || !existsSync(join(folder, address))) {
      throw new Error(`A page asks for what the build did not make: ${tag}`)
    }
    const integrity = await integrityOf(join(folder, address))
    // A function, since a name of ours may hold what a replacement text would read as a reference.
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

/** The file that Cloudflare Pages, Netlify and their like read: a path, and its headers indented. */
function headersFile({ everywhere, contact }: Policies, assets: readonly string[]): string {
  const common = { ...everyAnswer, 'Strict-Transport-Security': strictTransportSecurity }
  const lines = Object.entries(common).map(([name, value]) => `  ${name}: ${value}`)
  return `# Made by the build. These hosts are on https, so HSTS is always sent.
/*
  Content-Security-Policy: ${everywhere}
${lines.join('\n')}

# The form's frame. Where rules add up, '!' takes the stricter policy away first; elsewhere the later
# rule wins and that line means nothing.
${['/contact', '/contact/']
  .map((path) => `${path}\n  ! Content-Security-Policy\n  Content-Security-Policy: ${contact}`)
  .join('\n')}

# Each by its name: these hosts give a rule's headers to whatever they answer, and what stands in for a
# script of another build must not be kept.
${assets.map((name) => `/assets/${name}\n  Cache-Control: ${immutable}`).join('\n')}
`
}

/** The file by which Netlify and its like answer where no file is. */
const redirectsFile = `# Made by the build. Cloudflare Pages ignores both rules, with a warning, and answers with the page by
# itself: it would follow another rule even where a file is.
/assets/* /index.html 404
/* /index.html 200
`

/** For `include` in nginx's server block. It asks for the address as it was typed, not as it is served. */
function nginxSnippet({ everywhere, contact }: Policies): string {
  const common = Object.entries(everyAnswer)
  return `# Made by the build, for the server block: include /path/to/dist/nginx-headers.conf;
# A location with an add_header of its own loses all of these, so that it must include this file too.
set $dealbell_policy "${everywhere}";
if ($request_uri ~* "^/contact/?(\\?|$)") {
  set $dealbell_policy "${contact}";
}
# nginx sends no header that is empty. $https is set where nginx itself speaks TLS; behind a proxy that
# does, let that proxy send HSTS.
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
# Not always: an error is not to be kept.
add_header Cache-Control $dealbell_cache;
`
}
