import { spawnSync } from 'node:child_process'

/** Builds the page once, so that the servers which the tests start find it fresh. */
export default function build(): void {
  const { status } = spawnSync('npm', ['run', 'build'], { stdio: 'inherit' })
  if (status !== 0) throw new Error('The page could not be built')
}
