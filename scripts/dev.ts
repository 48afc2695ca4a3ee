// Runs the dashboard with hot reload, and restarts the server after each change of its files. With --mock, there is no
// server: the page answers its own calls.
import { type ChildProcess, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { type AddressInfo, createServer as createSocket } from 'node:net'
import { join } from 'node:path'
import { createServer, type Plugin } from 'vite'
import { mock } from '../build/mock.ts'
import { backendRoots } from '../contract/endpoints.ts'
import { loadEnvironment } from '../server/settings/environment.ts'
import { parseEnv } from '../server/settings/settings.ts'

const root = join(import.meta.dirname, '..')
const isMock = process.argv.includes('--mock')
const serverFolders = [join(root, 'server/'), join(root, 'stand-ins/'), join(root, 'contract/')]

let server: ChildProcess
let state: 'starting' | 'ready' | 'crashed' | 'stopping' = 'starting'
const changes = new EventEmitter()
let wasReady = false
/** Whether a file has changed since the server began to start. */
let isOutdated = false

try {
  process.chdir(root)
  loadEnvironment()
  // With VITE_API_URL, the browser would leave the mock to connect a service. vite.config.ts would read a deleted value
  // from .env again.
  if (isMock) process.env.VITE_API_URL = ''
  const port = Number(process.env.DEV_PORT ?? 5173)
  const vite = await createServer({
    configLoader: 'native',
    plugins: [isMock ? mock() : serverPlugin()],
    // Vite bundles the dependencies again when its plugins change. So the mock has its own cache.
    ...(isMock && { cacheDir: 'node_modules/.vite/mock' }),
    server: { port, strictPort: true, ...(!isMock && { proxy: await proxyToServer() }) },
  })
  await vite.listen().catch((error: Error) => {
    if (!error.message.includes('already in use')) throw error
    throw new Error(`Port ${port} is taken. Set DEV_PORT to another one, or to 0 for a free one.`)
  })
  // Vite's own listener ends this process without waiting for the server.
  process.removeAllListeners('SIGTERM')
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)

  const address = vite.httpServer?.address() as AddressInfo
  const dashboard = `http://localhost:${address.port}`
  if (!isMock) {
    // Providers redirect to APP_URL, and Vite serves the dashboard.
    Object.assign(process.env, { APP_URL: dashboard, SERVE_DASHBOARD: 'false' })
    // A fault of the server's code is shown with its place.
    process.env.DEBUG ||= '1'
    startServer()
    await once(changes, 'ready')
  }
  console.log(`The dashboard is at ${dashboard}. Ctrl-C ends it.`)
} catch (error) {
  // A person who can fix the problem needs only the message.
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}

/** One origin for page and backend, as in production. */
async function proxyToServer() {
  // The proxy needs the server's port before the server listens.
  if (process.env.PORT?.trim() === '0') process.env.PORT = String(await freePort())
  const settings = parseEnv(process.env)
  const target = settings.localOriginAt(settings.port)
  return Object.fromEntries(
    backendRoots.map((path) => [`/${path}`, { target, changeOrigin: false }]),
  )
}

function startServer(): void {
  isOutdated = false
  // However this process ends, the channel between both closes, and then the server stops too.
  const stopWithThisProcess =
    'data:text/javascript,process.on("disconnect",()=>process.kill(process.pid,"SIGTERM"))'
  server = spawn(process.execPath, ['--import', stopWithThisProcess, 'server/main.ts'], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  server.once('message', () => {
    if (state === 'starting') become('ready')
    wasReady = true
  })
  server.once('exit', (code) => {
    if (state === 'stopping') process.exit()
    // The server has said what is wrong, for example that its port is taken.
    if (!wasReady) process.exit(code || 1)
    if (isOutdated) return startServer()
    console.error('The server has ended. It starts again when you save one of its files.')
    become('crashed')
  })
}

function become(next: typeof state): void {
  state = next
  changes.emit(next)
  changes.emit('change')
}

function restartServer(): void {
  if (state === 'stopping' || !wasReady) return
  const hasEnded = state === 'crashed'
  isOutdated = true
  become('starting')
  if (hasEnded) startServer()
  // Its `exit` starts the next one. A second signal would end it before it has closed its database.
  else if (!server.killed) server.kill('SIGTERM')
}

function stop(signal: NodeJS.Signals): void {
  const hasEnded = state === 'crashed'
  state = 'stopping'
  if (hasEnded || isMock) process.exit()
  // Ctrl-C also reaches the server itself, which ignores the same signal if it comes again at once.
  server.kill(signal === 'SIGHUP' ? 'SIGTERM' : signal)
}

/** Restarts the server after a change. Calls wait while it starts. */
function serverPlugin(): Plugin {
  return {
    name: 'dealbell:server',
    configureServer({ middlewares, watcher }) {
      watcher.on('all', (_event, path) => {
        if (serverFolders.some((folder) => path.startsWith(folder))) restartServer()
      })
      middlewares.use(async ({ url = '' }, response, next) => {
        if (!backendRoots.some((path) => url.startsWith(`/${path}`))) return next()
        while (state === 'starting') await once(changes, 'change')
        if (state === 'ready') return next()
        response.writeHead(503, { 'Content-Type': 'text/plain; charset=utf-8' })
        response.end(
          'The server has ended because of an error. The terminal of `npm run dev` shows the error. Save a file of the server to start it again.\n',
        )
      })
    },
  }
}

async function freePort(): Promise<number> {
  const socket = createSocket().listen(0)
  await once(socket, 'listening')
  const { port } = socket.address() as AddressInfo
  await new Promise((resolve) => socket.close(resolve))
  return port
}
