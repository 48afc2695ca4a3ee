import { setTimeout } from 'node:timers/promises'
import type { WebkitPrograms } from '../../scripts/programs.ts'
import { freePort } from '../relay/postgres.ts'
import { launch } from '../server/program.ts'
import { type Browser, mouseClick, type Tab } from './tab.ts'

/** Starts WebKitGTK's WebDriver on a display of its own. @param home is an empty folder. */
export async function launchWebkit(programs: WebkitPrograms, home: string): Promise<Browser> {
  // It takes a free display, and writes its number.
  const screen = launch(['-displayfd', '1', '-nolisten', 'tcp'], {}, { program: programs.xvfb })
  const port = await freePort()
  const environment = {
    HOME: home,
    DISPLAY: `:${await screen.said(/^(\d+)\n/m)}`,
    // Neither the sandbox nor the graphics processor are available to root and in a container.
    WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1',
    WEBKIT_DISABLE_COMPOSITING_MODE: '1',
  }
  const driver = launch([`--port=${port}`], environment, { program: programs.driver })

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
    if (driver.child.exitCode !== null) throw new Error(`WebKit's driver ended: ${driver.output}`)
    await setTimeout(20)
  }

  async function newTab(): Promise<Tab> {
    // Each session is a new browser, without cookies and with an empty cache. The driver could start the browser, but at
    // a port that an outgoing connection may take first. The driver would then wait for ever.
    const targetAddress = `127.0.0.1:${await freePort()}`
    const browser = launch(
      ['--automation'],
      { ...environment, WEBKIT_INSPECTOR_SERVER: targetAddress },
      { program: programs.miniBrowser, detached: true },
    )
    const capabilities = { alwaysMatch: { 'webkitgtk:browserOptions': { targetAddress } } }
    const { sessionId } = (await send('POST', '/session', { capabilities })) as {
      sessionId: string
    }
    const path = `/session/${sessionId}`
    await send('POST', `${path}/window/rect`, { width: 1280, height: 900 })
    return {
      open: async (url) => void (await send('POST', `${path}/url`, { url })),
      reload: async () => void (await send('POST', `${path}/refresh`, {})),
      run: (script) => send('POST', `${path}/execute/sync`, { script, args: [] }),
      async click(point) {
        await send('POST', `${path}/actions`, { actions: [mouseClick(point)] })
      },
      async close() {
        await send('DELETE', path)
        browser.killGroup()
        await browser.exited
      },
    }
  }

  async function close() {
    await driver.kill()
    await screen.kill()
  }
  return { newTab, close }
}
