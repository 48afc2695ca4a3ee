import { createHash } from 'node:crypto'

/**
 * Returns the page's import map as a source of scripts in the Content-Security-Policy. build/security.ts writes the
 * map into the page.
 */
export function importMapSourceOf(html: string): string {
  const [, importMap = ''] = /<script type="importmap">(.*?)<\/script>/s.exec(html) ?? []
  return `'sha256-${createHash('sha256').update(importMap).digest('base64')}'`
}
