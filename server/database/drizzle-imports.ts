import { registerHooks } from 'node:module'

// drizzle-orm's package.json has 130 kB of `exports`, and Node reads it anew for each of the 457 modules that import each
// other by a relative path. That cost two seconds of a processor and 230 MB. These imports need none of it. A bundle has no
// such import.
registerHooks({
  resolve(specifier, context, resolveNext) {
    const { parentURL = '' } = context
    if (!specifier.startsWith('.') || !parentURL.includes('/node_modules/drizzle-orm/'))
      return resolveNext(specifier, context)
    return { url: new URL(specifier, parentURL).href, format: 'module', shortCircuit: true }
  },
})
