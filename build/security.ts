import * as v from 'valibot'
import type { Plugin } from 'vite'
import {
  everyAnswer,
  pageCaching,
  pagePolicy,
  strictTransportSecurity,
} from '../contract/page-headers.ts'
import { hstsMaxAge, inWords } from '../server/settings/variables.ts'
import type { Config } from '../src/parse-config.ts'

const immutable = 'public, max-age=31536000, immutable'

/** Writes files for other hosts, so that they send the same headers as the project's own server (docs/hosting.md). */
export function security(config: Config): Plugin {
  // A wrong setting stops the build here.
  const maxAge = readHstsMaxAge()
  return {
    name: 'dealbell:security',
    apply: 'build',
    generateBundle: {
      // After all plugins that add a file.
      order: 'post',
      handler(_options, bundle) {
        const policy = pagePolicy(config)
        const assets = Object.keys(bundle).filter((name) => name.startsWith('assets/'))
        const files = {
          _headers: headersFile(policy, maxAge, assets),
          _redirects: redirectsFile,
          'nginx-headers.conf': nginxSnippet(policy, maxAge),
        }
        for (const [fileName, source] of Object.entries(files)) {
          this.emitFile({ type: 'asset', fileName, source })
        }
      },
    },
  }
}

/** @throws Error with a sentence if the setting makes no sense. */
function readHstsMaxAge(): number | undefined {
  const result = v.safeParse(v.object({ HSTS_MAX_AGE: hstsMaxAge }), process.env)
  if (result.success) return result.output.HSTS_MAX_AGE
  const error = new Error(inWords(result.issues).join('\n'))
  // Vite prints the stack. Whoever corrects a setting needs only the message.
  error.stack = error.message
  throw error
}

/** The `_headers` file of Netlify and Cloudflare Pages: each path, then its indented headers. */
function headersFile(
  policy: string,
  maxAge: number | undefined,
  assets: readonly string[],
): string {
  const hsts = strictTransportSecurity(maxAge)
  const common = { ...everyAnswer, 'Strict-Transport-Security': hsts }
  const lines = Object.entries(common).map(([name, value]) => `  ${name}: ${value}`)
  return `# Written by the build. These hosts use https, so HSTS is always sent.
/*
  Content-Security-Policy: ${policy}
${lines.join('\n')}

# One rule for each file. These hosts apply a rule to every answer, also to the page that they send
# for a missing script. No cache may keep that page.
${assets.map((name) => `/${name}\n  Cache-Control: ${immutable}`).join('\n')}
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
function nginxSnippet(policy: string, maxAge: number | undefined): string {
  // As our server does (server/http/safety-headers.ts).
  const withoutPort = maxAge === undefined ? ' and if the address has no port' : ''
  const common = Object.entries(everyAnswer)
  return `# Written by the build, for the server block: include /path/to/dist/nginx-headers.conf;
# A location with its own add_header inherits none of these headers. Include this file there too.
# nginx sends no empty header. $https is set only if nginx itself terminates TLS. Otherwise the
# proxy that terminates TLS must send HSTS. This sends it over https${withoutPort}.
set $dealbell_hsts "";
if ($https) {
  set $dealbell_hsts "${strictTransportSecurity(maxAge)}";
}
${withoutPort && 'if ($http_host ~ ":") {\n  set $dealbell_hsts "";\n}\n'}set $dealbell_cache "${pageCaching}";
if ($request_uri ~ "^/assets/") {
  set $dealbell_cache "${immutable}";
}
add_header Content-Security-Policy "${policy}" always;
${common.map(([name, value]) => `add_header ${name} "${value}" always;`).join('\n')}
add_header Strict-Transport-Security $dealbell_hsts always;
# Without "always", so that caches keep no errors.
add_header Cache-Control $dealbell_cache;
`
}
