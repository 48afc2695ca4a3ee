import { gzipSync } from 'node:zlib'
import type { Plugin } from 'vite'
import { chunksOf } from './chunks.ts'

export interface Budget {
  /** All scripts that `/` loads, in bytes of gzip. */
  script: number
  /** The style sheet that `/` loads at once, in bytes of gzip. */
  style: number
}

/** The scripts took 122.9 KiB on 24 November 2026. The limit is 3 KiB above that (decision 305). */
export const pageBudget: Budget = { script: 126 * 1024, style: 6 * 1024 }

/** Fails the build when the dashboard exceeds its budget. */
export function budget(limits: Budget): Plugin {
  return {
    name: 'dealbell:budget',
    apply: 'build',
    generateBundle: {
      order: 'post',
      handler(_options, bundle) {
        const { boot, main, reactDom, ofRoute, lateStyles } = chunksOf(bundle)
        const scripts = [boot, ...main, ...reactDom, ...(ofRoute.get('index') ?? [])].map(
          ({ code }) => code,
        )
        const styles = Object.values(bundle).flatMap((file) =>
          file.fileName.endsWith('.css') && file.fileName !== lateStyles && 'source' in file
            ? [file.source]
            : [],
        )
        const sizes: Budget = { script: gzipSize(scripts), style: gzipSize(styles) }
        const excesses = (['script', 'style'] as const)
          .filter((kind) => sizes[kind] > limits[kind])
          .map((kind) => `its ${kind} takes ${sizes[kind]} of ${limits[kind]} bytes`)
        if (excesses.length > 0) {
          this.error(
            `The dashboard exceeds its budget in gzip: ${excesses.join(', ')}. Make it smaller, or raise the limit: the constant pageBudget in build/budget.ts. Say in the commit what the bytes are for (docs/decisions/0305-a-size-budget-with-a-margin.md).`,
          )
        }
      },
    },
  }
}

function gzipSize(files: readonly (string | Uint8Array)[]): number {
  return files.reduce((size, file) => size + gzipSync(file, { level: 9 }).length, 0)
}
