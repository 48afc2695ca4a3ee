import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'

// Runs the dashboard with hot reload, and restarts the server after each change.
const root = join(import.meta.dirname, '..')
const vite = 'http://localhost:5173'

let stopping = false

const children = [
  run(
    [join(root, 'node_modules/vite/bin/vite.js'), '--strictPort', '--configLoader', 'native'],
    {},
  ),
  // Providers redirect to APP_URL, and Vite serves the dashboard.
  run(['--watch', '--watch-preserve-output', join(root, 'server/main.ts')], {
    APP_URL: vite,
    SERVE_DASHBOARD: 'false',
  }),
]
console.log(`The dashboard is at ${vite}; Ctrl-C ends both.`)

function run(args: string[], env: NodeJS.ProcessEnv): ChildProcess {
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  // If one process ends, end the other too.
  child.on('exit', (code) => {
    if (!stopping) process.exitCode = code ?? 1
    stop()
  })
  return child
}

// This process ends after its last child.
function stop(): void {
  stopping = true
  for (const child of children) child.kill('SIGTERM')
}

process.on('SIGINT', stop)
process.on('SIGTERM', stop)
