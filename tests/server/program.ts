import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { expect } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

/** Starts a program of the server with these settings and no others. */
export function launch(
  args: readonly string[],
  env: Record<string, string> = {},
  { openFiles }: { openFiles?: number } = {},
) {
  const [command, ...rest] =
    openFiles === undefined
      ? [process.execPath]
      : ['/bin/sh', '-c', `ulimit -n ${openFiles}; exec "$0" "$@"`, process.execPath]
  const child: ChildProcess = spawn(command, [...rest, ...args], {
    cwd: root,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const waiting = new Set<() => void>()
  const look = () => {
    for (const each of waiting) each()
  }
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      output += chunk
      look()
    })
  }
  const exited = once(child, 'close').then(() => {
    look()
    return child.exitCode
  })

  /** Resolves when the output matches. @returns the first group, or all that matches. */
  function said(pattern: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const each = () => {
        const found = output.match(pattern)
        if (found !== null) resolve(found[1] ?? found[0])
        else if (child.exitCode !== null || child.signalCode !== null) {
          reject(new Error(`It ended and had said: ${output}`))
        } else return
        waiting.delete(each)
      }
      waiting.add(each)
      each()
    })
  }

  return {
    child,
    exited,
    said,
    /** The address of the server. It answers there. */
    listens: () => said(/listens on (http:\S+)/),
    get output() {
      return output
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** A free port, and no page that would first be built. */
const quiet = { PORT: '0', SERVE_DASHBOARD: 'false' }

export const startServer = (env?: Record<string, string>, options?: { openFiles?: number }) =>
  launch(['server/main.ts'], { ...quiet, ...env }, options)

/** Runs a program to its end. @returns what it says, and how it ends. */
export async function outputOf(
  args: readonly string[],
  env?: Record<string, string>,
): Promise<string> {
  const program = launch(args, { ...quiet, ...env })
  const code = await program.exited
  return `${program.output}exit ${code ?? program.child.signalCode}`
}

/** Consents at a stand-in as a browser does. @returns the cookie of the session. */
export async function connect(
  url: string,
  provider: 'hubspot' | 'slack',
  cookie = '',
): Promise<string> {
  const begun = await fetch(`${url}/api/${provider}/auth`, {
    redirect: 'manual',
    headers: { Cookie: cookie },
  })
  const session = begun.headers.getSetCookie()[0]?.split(';')[0] ?? cookie
  const consent = new URL(begun.headers.get('Location') ?? '')
  const back = await fetch(consent.origin + consent.pathname, {
    method: 'POST',
    body: new URLSearchParams({
      ...Object.fromEntries(consent.searchParams),
      answer: 'allow',
      channel: 'C0DEALS001',
    }),
    redirect: 'manual',
  })
  const { search } = new URL(back.headers.get('Location') ?? '')
  const done = await fetch(`${url}/api/${provider}/callback${search}`, {
    headers: { Cookie: session },
  })
  expect(done.status).toBe(204)
  return done.headers.getSetCookie()[0]?.split(';')[0] ?? session
}
