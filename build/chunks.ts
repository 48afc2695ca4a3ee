import type { Rolldown } from 'vite'

const bootFile = '/src/boot.ts'
// The router's plugin moves the components of a route to chunks of its file with a query.
const routeFile = /\/src\/routes\/(.+)\.tsx\?/

/** Groups the chunks of the build by their purpose. Each list includes static imports. */
export function chunksOf(bundle: Rolldown.OutputBundle) {
  const chunks = Object.values(bundle).filter((file) => file.type === 'chunk')

  function find(what: string, matches: (moduleId: string) => boolean) {
    const chunk = chunks.find(({ facadeModuleId }) => matches(facadeModuleId ?? ''))
    if (chunk === undefined) throw new Error(`The build has no chunk for ${what}.`)
    return chunk
  }
  const withImports = (chunk: Rolldown.OutputChunk): Rolldown.OutputChunk[] => [
    chunk,
    ...chunks.filter(({ fileName }) => chunk.imports.includes(fileName)).flatMap(withImports),
  ]

  const boot = find('the boot script', (id) => id.endsWith(bootFile))
  const main = new Set(withImports(find('the page', (id) => id.endsWith('/index.html'))))
  const withoutMain = (chunk: Rolldown.OutputChunk) => [
    ...new Set(withImports(chunk).filter((needed) => !main.has(needed))),
  ]
  const late = withoutMain(find('what loads late', (id) => id.endsWith('/src/late/parts.ts')))
  const ofRoute = new Map<string, Rolldown.OutputChunk[]>()
  for (const chunk of chunks) {
    const file = routeFile.exec(chunk.facadeModuleId ?? '')?.[1]
    if (file === undefined) continue
    ofRoute.set(file, [...new Set([...(ofRoute.get(file) ?? []), ...withoutMain(chunk)])])
  }
  const lateStyles = Object.values(bundle).find(
    (file) =>
      file.type === 'asset' &&
      file.originalFileNames.some((name) => name.endsWith('src/late/late.css')),
  )
  if (lateStyles === undefined) throw new Error('The build has no sheet for what loads late.')
  return {
    boot,
    main: [...main],
    reactDom: withoutMain(find('react-dom', (id) => id.includes('/react-dom/client.js'))),
    /** What the dashboard loads late, and only for a backend that offers more than §7. */
    late: late.filter((chunk) => !ofRoute.get('index')?.includes(chunk)),
    /** The file of the styles that only these scripts and /activity need. */
    lateStyles: lateStyles.fileName,
    /** The chunks of each route, by its file in src/routes, without the extension. */
    ofRoute,
  }
}
