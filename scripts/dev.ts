import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'

// One command for both halves: the page with hot reload, and the server that starts anew by itself.
const root = join(import.meta.dirname, '..')
const vite = 'http://localhost:5173'

let stopping = false

const children = [
  run(
    [join(root, 'node_modules/vite/bin/vite.js'), '--strictPort', '--configLoader', 'native'],
    {},
  ),
  // Providers send the browser back to the page, so the page's address is the app's.
  run(['--watch', '--watch-preserve-output', join(root, 'server/main.ts')], {
    APP_URL: vite,
    SERVE_DASHBOARD: 'false',
  }),
]
console.log(`The dashboard is at ${vite}; Ctrl-C ends it and the server.`)

function run(args: string[], env: NodeJS.ProcessEnv): ChildProcess {
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  // One half alone is of no use.
  child.on('exit', (code) => {
    if (!stopping) process.exitCode = code ?? 1
    stop()
  })
  return child
}

// The children end by themselves, and this process with the last of them.
function stop(): void {
  stopping = true
  for (const child of children) child.kill('SIGTERM')
}

process.on('SIGINT', stop)
process.on('SIGTERM', stop)
