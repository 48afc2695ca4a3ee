import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')

export type Program = ReturnType<typeof launch>

interface LaunchOptions {
  /** The default is this Node. */
  program?: string
  cwd?: string
  /** It leads a group of processes, which a test can end together. */
  detached?: boolean
}

/** What a program gets of the tests' own environment. The cache makes it start sooner. */
export function inherited() {
  const { PATH = '', NODE_COMPILE_CACHE } = process.env
  return { PATH, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }
}

/** No proxy answers there. The tests' servers are on this machine, which every program must ask without one. */
export const companyNetwork = {
  ...{ HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9' },
  NODE_USE_ENV_PROXY: '1',
}

/** Starts a program with these settings and no others. */
export function launch(
  args: readonly string[],
  env: Record<string, string> = {},
  { program = process.execPath, ...options }: LaunchOptions = {},
) {
  const child: ChildProcess = spawn(program, args, {
    cwd: root,
    env: { ...inherited(), ...(program === process.execPath && companyNetwork), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...options,
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
  // A test that times out leaves no program behind either.
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const exited = once(child, 'close').then(() => {
    process.off('exit', kill)
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
    listens: () => said(/(?:listens on|Open) (http:\S+)/),
    get output() {
      return output
    },
    async kill() {
      kill()
      await exited
    },
    /** Signals a `detached` program and what it has started, as a terminal does. */
    signalGroup: (signal: NodeJS.Signals) => process.kill(-Number(child.pid), signal),
    /** Also ends what a `detached` program has started. */
    killGroup() {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // All of them have ended.
      }
    },
  }
}

/** A free port, and no page that would first be built. */
const quiet = { PORT: '0', SERVE_DASHBOARD: 'false' }

export const startServer = (env?: Record<string, string>) =>
  launch(['server/main.ts'], { ...quiet, ...env })

/** Runs a program to its end. @returns what it says, and how it ends. */
export async function outputOf(
  args: readonly string[],
  env?: Record<string, string>,
): Promise<string> {
  const program = launch(args, { ...quiet, ...env })
  const code = await program.exited
  return `${program.output}exit ${code ?? program.child.signalCode}`
}

/**
 * Consents at a stand-in as a browser does.
 * @param send makes the calls.
 * @returns the cookie of the session.
 */
export async function connect(
  url: string,
  provider: string,
  cookie = '',
  send: typeof fetch = fetch,
): Promise<string> {
  const begun = await send(`${url}/api/${provider}/auth`, {
    redirect: 'manual',
    headers: { Cookie: cookie },
  })
  const session = begun.headers.getSetCookie()[0]?.split(';')[0] ?? cookie
  const consent = new URL(begun.headers.get('Location') ?? '')
  // Of a chat by address, the page of this server takes the place of a consent page.
  const answer = consent.pathname.endsWith('/address') ? 'stand-in' : 'allow'
  const back = await send(consent.origin + consent.pathname, {
    method: 'POST',
    headers: { Cookie: session },
    body: new URLSearchParams({
      ...Object.fromEntries(consent.searchParams),
      answer,
      channel: 'C0DEALS001',
    }),
    redirect: 'manual',
  })
  const { search } = new URL(back.headers.get('Location') ?? '')
  const done = await send(`${url}/api/${provider}/callback${search}`, {
    headers: { Cookie: session },
  })
  if (done.status !== 204) throw new Error(`The callback was answered with ${done.status}.`)
  return done.headers.getSetCookie()[0]?.split(';')[0] ?? session
}
