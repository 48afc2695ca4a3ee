import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { breaks } from './breaks.ts'

// Loaded before everything else (node --import): undoes the fix whose number BREAK says.

const chosen = breaks[Number(process.env.BREAK)]
if (chosen === undefined) throw new Error('BREAK is no number of a break.')
const { file, from, to } = chosen

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    if (!url.startsWith('file:') || !fileURLToPath(url).endsWith(`/${file}`)) return loaded
    const source = String(loaded.source)
    if (source.split(from).length !== 2) throw new Error(`${file} must have once: ${from}`)
    return { ...loaded, source: source.replace(from, () => to) }
  },
})
