import { existsSync, readFileSync } from 'node:fs'

/**
 * Calls `stop` when the npm that runs this process has ended. npm starts a script through a shell that
 * forwards no signal, and a killed npm sends none. On Windows, a parent that ends is not noticed.
 * @param script the name of the script in package.json. Without npm, nothing happens.
 */
export function whenNpmEnds(script: string, stop: () => void): void {
  if (process.env.npm_lifecycle_event !== script) return
  const shell = process.ppid
  const npm = parentOf(shell)
  const timer = setInterval(() => {
    if (process.ppid === shell && isRunning(npm)) return
    clearInterval(timer)
    stop()
  }, 250).unref()
}

/** The npm that started the shell. Undefined without /proc, or if the shell has replaced itself with this process. */
function parentOf(shell: number): number | undefined {
  const path = `/proc/${shell}/status`
  const status = existsSync(path) ? readFileSync(path, 'utf8') : ''
  // After such an `exec`, our parent is npm. Whoever started npm may end earlier, as with nohup.
  if (/^Name:\s*npm/.test(status)) return undefined
  return Number(/^PPid:\s*(\d+)/m.exec(status)?.[1]) || undefined
}

function isRunning(pid: number | undefined): boolean {
  if (pid === undefined) return true
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // Another user may have started npm.
    return Object(error).code !== 'ESRCH'
  }
}
