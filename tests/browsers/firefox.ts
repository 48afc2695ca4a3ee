import { once } from 'node:events'
import { launch } from '../server/program.ts'
import { type Browser, mouseClick, type Tab } from './tab.ts'

/** Of what Firefox sends, the fields that are read here. */
interface Message {
  /** The number of the command that it answers. */
  id: number
  result?: Result
  message?: string
}
interface Result {
  context: string
  userContext: string
  result?: { value?: string }
  exceptionDetails?: { text: string }
}

/** Starts Firefox without a window, and drives it with WebDriver BiDi. @param home is an empty folder. */
export async function launchFirefox(path: string, home: string): Promise<Browser> {
  const args = ['--headless', '--remote-debugging-port=0', '--profile', home]
  const program = launch(args, { HOME: home }, { program: path })
  const socket = new WebSocket(`${await program.said(/ws:\S+/)}/session`)
  await once(socket, 'open')

  const commands: Array<(answer: Message) => void> = []
  socket.onmessage = ({ data }) => {
    const message: Message = JSON.parse(data)
    commands[message.id]?.(message)
  }
  async function send(method: string, params: object): Promise<Result> {
    const { promise, resolve } = Promise.withResolvers<Message>()
    const id = commands.push(resolve) - 1
    socket.send(JSON.stringify({ id, method, params }))
    const { result, message } = await promise
    if (result === undefined) throw new Error(`${method}: ${message}`)
    return result
  }
  await send('session.new', { capabilities: {} })

  async function newTab(): Promise<Tab> {
    const { userContext } = await send('browser.createUserContext', {})
    const { context } = await send('browsingContext.create', { type: 'tab', userContext })
    const viewport = { width: 1280, height: 900 }
    await send('browsingContext.setViewport', { context, viewport })
    return {
      async open(url) {
        await send('browsingContext.navigate', { context, url, wait: 'complete' })
      },
      async reload() {
        await send('browsingContext.reload', { context, wait: 'complete' })
      },
      async run(body) {
        const { result, exceptionDetails } = await send('script.callFunction', {
          // As JSON, so that the value needs no other translation.
          functionDeclaration: `async () => JSON.stringify(await (() => {${body}\n})())`,
          target: { context },
          awaitPromise: true,
        })
        if (exceptionDetails) throw new Error(exceptionDetails.text)
        return result?.value === undefined ? undefined : JSON.parse(result.value)
      },
      async click(point) {
        await send('input.performActions', { context, actions: [mouseClick(point)] })
      },
      async close() {
        await send('browser.removeUserContext', { userContext })
      },
    }
  }
  return { newTab, close: program.kill }
}
