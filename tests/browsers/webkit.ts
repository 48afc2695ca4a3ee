import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import type { WebkitPrograms } from '../../scripts/programs.ts'
import { freePort } from '../relay/postgres.ts'
import { type Browser, mouseClick, type Tab } from './tab.ts'

/** Starts WebKitGTK's WebDriver on a display of its own. @param home is an empty folder. */
export async function launchWebkit(programs: WebkitPrograms, home: string): Promise<Browser> {
  const screen = startGroup(programs.xvfb, ['-displayfd', '3', '-nolisten', 'tcp'], {})
  const port = await freePort()
  const environment = {
    HOME: home,
    DISPLAY: `:${await displayOf(screen.child)}`,
    // Neither the sandbox nor the graphics processor are available to root and in a container.
    WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1',
    WEBKIT_DISABLE_COMPOSITING_MODE: '1',
  }
  const driver = startGroup(programs.driver, [`--port=${port}`], environment)

  async function send(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      ...(body && { body: JSON.stringify(body) }),
    })
    const { value } = (await response.json()) as { value: unknown }
    if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(value)}`)
    return value
  }

  while (!(await send('GET', '/status').then(Boolean, () => false))) {
    if (!driver.isRunning()) throw new Error("WebKit's driver ended")
    await setTimeout(20)
  }

  async function newTab(): Promise<Tab> {
    // Each session is a new browser, without cookies and with an empty cache. The driver could start the browser, but at
    // a port that an outgoing connection may take first. The driver would then wait for ever.
    const targetAddress = `127.0.0.1:${await freePort()}`
    const browser = startGroup(programs.miniBrowser, ['--automation'], {
      ...environment,
      WEBKIT_INSPECTOR_SERVER: targetAddress,
    })
    const capabilities = { alwaysMatch: { 'webkitgtk:browserOptions': { targetAddress } } }
    const { sessionId } = (await send('POST', '/session', { capabilities })) as {
      sessionId: string
    }
    const path = `/session/${sessionId}`
    await send('POST', `${path}/window/rect`, { width: 1280, height: 900 })
    return {
      errors: [],
      open: async (url) => void (await send('POST', `${path}/url`, { url })),
      reload: async () => void (await send('POST', `${path}/refresh`, {})),
      run: (script) => send('POST', `${path}/execute/sync`, { script, args: [] }),
      async click(point) {
        await send('POST', `${path}/actions`, { actions: [mouseClick(point)] })
      },
      async close() {
        await send('DELETE', path)
        await browser.end()
      },
    }
  }

  async function close() {
    await driver.end()
    await screen.end()
  }
  return { newTab, close }
}

/** Starts a program whose own processes end with it, also when this process is interrupted. */
function startGroup(program: string, args: string[], env: Record<string, string>) {
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    // A group of its own, which one signal ends.
    detached: true,
  })
  const ended = once(child, 'exit')
  const isRunning = () => child.exitCode === null && child.signalCode === null
  const kill = () => {
    if (child.pid !== undefined && isRunning()) process.kill(-child.pid, 'SIGKILL')
  }
  process.once('exit', kill)
  async function end() {
    kill()
    await ended
    process.off('exit', kill)
  }
  return { child, isRunning, end }
}

/** The number of the free display that Xvfb takes. It writes the number to descriptor 3. */
async function displayOf(xvfb: ChildProcess): Promise<string> {
  const output = xvfb.stdio[3]
  if (!output) throw new Error('Xvfb did not start')
  const [line] = await Promise.race([
    once(output, 'data'),
    once(xvfb, 'exit').then(() => {
      throw new Error('Xvfb ended')
    }),
  ])
  return String(line).trim()
}
