// `npm run bench -- relay|load|soak|start` measures one part of the product. docs/performance.md explains the figures.
import { argv, exit } from 'node:process'

const parts: Readonly<Record<string, () => Promise<unknown>>> = {
  relay: () => import('./relay.ts'),
  load: () => import('./load.ts'),
  soak: () => import('./soak.ts'),
  start: () => import('./start.ts'),
}

// The part reads the options that follow its name.
const [part = ''] = argv.splice(2, 1)
const measure = parts[part]
if (measure === undefined) {
  console.error(`Usage: npm run bench -- ${Object.keys(parts).join('|')} [options]`)
  exit(2)
}
await measure()
