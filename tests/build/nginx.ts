import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { request as overHttp } from 'node:http'
import { request as overHttps } from 'node:https'
import { join, resolve } from 'node:path'
import { freePort } from '../relay/postgres.ts'

const root = resolve(import.meta.dirname, '../..')

/** Starts nginx with a configuration of docs/hosting.md, with other paths and ports. `isShort`: the first one there. */
export async function startNginx(
  program: string,
  {
    folder,
    dist,
    backendPort,
    isShort = false,
  }: { folder: string; dist: string; backendPort: number; isShort?: boolean },
) {
  const http = await freePort()
  const https = await freePort()
  const docs = await readFile(join(root, 'docs/hosting.md'), 'utf8')
  const certificate = join(import.meta.dirname, 'localhost.pem')
  const [connections] = /worker_connections \d+;/.exec(docs) ?? []
  const [short = '', long = ''] = Array.from(
    docs.matchAll(/```nginx\n(.*?)```/gs),
    ([, block = '']) => block,
  )
  const servers = (isShort ? short : long)
    .replace('listen 80;', `listen 127.0.0.1:${http};`)
    .replace('listen 443 ssl;', `listen 127.0.0.1:${https} ssl;\nlisten 127.0.0.1:${http};`)
    .replace('server_name dealbell.example.com;', 'server_name redirect.example.com;')
    .replace('server_name dealbell.example.com;', 'server_name dealbell.example.com localhost;')
    // In quotes, because the project's path may contain a space.
    .replaceAll('/etc/ssl/dealbell.pem', `"${certificate}"`)
    .replaceAll('/srv/dealbell/dist', dist)
    .replace('127.0.0.1:3000', `127.0.0.1:${backendPort}`)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${join(folder, name)};`)
    .join('\n')
  const config = join(folder, 'nginx.conf')
  await writeFile(
    config,
    `${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off; master_process off; pid ${join(folder, 'nginx.pid')}; error_log stderr;
events { ${connections} }
http {
  access_log off;
  ${temporary}
  types { text/html html; text/javascript js; text/css css; image/svg+xml svg; }
  ${servers}
}`,
  )
  const nginx = spawn(program, ['-c', config, '-p', folder], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let output = ''
  nginx.stderr?.on('data', (chunk) => {
    output += chunk
  })

  async function get(path: string, headers: Record<string, string> = {}, isSecure = true) {
    const host = { Host: 'dealbell.example.com', Connection: 'close' }
    const options = { rejectUnauthorized: false, headers: { ...host, ...headers } }
    const request = isSecure
      ? overHttps(`https://127.0.0.1:${https}${path}`, options)
      : overHttp(`http://127.0.0.1:${http}${path}`, options)
    request.end()
    const [answer] = await once(request, 'response')
    let body = ''
    for await (const chunk of answer) body += chunk
    const list: [string, string][] = []
    for (let index = 0; index < answer.rawHeaders.length; index += 2) {
      list.push([answer.rawHeaders[index], answer.rawHeaders[index + 1]])
    }
    return { status: Number(answer.statusCode), headers: new Headers(list), body }
  }

  for (let tries = 0; ; tries += 1) {
    const answer = await get('/favicon.svg').catch(() => undefined)
    if (answer?.status === 200) break
    if (nginx.exitCode !== null || tries > 100) throw new Error(`nginx did not start:\n${output}`)
    await new Promise((done) => setTimeout(done, 50))
  }
  return {
    get,
    httpPort: http,
    httpsPort: https,
    async stop() {
      if (nginx.exitCode !== null) return
      nginx.kill('SIGTERM')
      await once(nginx, 'exit')
    },
  }
}
