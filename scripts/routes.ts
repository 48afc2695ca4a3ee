import { resolveConfig } from 'vite'

// The router's plugin writes src/routeTree.gen.ts as soon as Vite has read its configuration.
await resolveConfig({ configLoader: 'native' }, 'build')
