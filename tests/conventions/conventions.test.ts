import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { getResponse } from 'msw'
import { describe, expect, test } from 'vitest'
import { endpoints } from '../../contract/endpoints.ts'
import { ruleCatalogue } from '../../contract/rules.ts'
import { createBackend } from '../msw/handlers.ts'

const root = resolve(import.meta.dirname, '../..')

/** The files of a folder that hold code of ours, as paths from the root. */
const sources = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/.test(path) && !path.includes('.gen.'))
    .map((path) => join(folder, path))

const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** What a file imports, as it says it. */
const imports = (path: string, text = read(path)) =>
  [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map((match) => match[1] as string)

const dashboard = sources('src')
const everything = [...dashboard, ...sources('contract'), ...sources('server')]

test('there is something to check', () => {
  expect(dashboard.length).toBeGreaterThan(20)
  expect(imports('src/api/client.ts')).toContain('ky')
})

// The linter holds each folder to what it may import; these are what it cannot see.
describe('imports run in one direction', () => {
  const layers = [
    'contract',
    'src/parse-config.ts',
    'src/config.ts',
    'src/ui',
    'src/api',
    'src/components',
    'src/routes',
    'src/routeTree.gen.ts',
    'src/router.tsx',
    'src/main.tsx',
  ]
  const layerOf = (path: string) =>
    layers.findIndex((layer) => path === layer || path.startsWith(`${layer}/`))

  test.each([...dashboard, ...sources('contract')])('%s', (path) => {
    const own = layerOf(path)
    expect(own, `${path} has a place among the layers`).toBeGreaterThanOrEqual(0)
    for (const target of imports(path).filter((name) => name.startsWith('.'))) {
      const imported = join(dirname(path), target)
      if (imported.endsWith('.css')) continue
      expect(layerOf(imported), `${path} imports ${imported}`).toBeGreaterThanOrEqual(0)
      expect(layerOf(imported), `${path} imports ${imported}`).toBeLessThanOrEqual(own)
    }
  })

  test('no file imports itself by way of others', () => {
    const visit = (path: string, trail: string[]): void => {
      expect(trail, `${[...trail, path].join(' → ')}`).not.toContain(path)
      if (seen.has(path)) return
      // A type alone is gone when the code runs.
      const running = read(path).replaceAll(/^import type [^']*'[^']*'/gm, '')
      for (const target of imports(path, running).filter((name) =>
        /^\.{1,2}\/.*\.tsx?$/.test(name),
      )) {
        const imported = join(dirname(path), target)
        if (!imported.includes('.gen.')) visit(imported, [...trail, path])
      }
      seen.add(path)
    }
    const seen = new Set<string>()
    for (const path of everything) visit(path, [])
  })
})

test('no file is a barrel or a drawer', () => {
  const drawers = everything.filter((path) =>
    /\/(index|utils?|helpers?|types|common|misc)\.tsx?$/.test(path),
  )
  // The dashboard's own address is '/', whose route has that name.
  expect(drawers).toEqual(['src/routes/index.tsx'])
  const reexporting = everything.filter((path) => /^export .* from '/m.test(read(path)))
  expect(reexporting).toEqual([])
})

test('only src/api/client.ts makes requests', () => {
  const others = dashboard.filter((path) => path !== 'src/api/client.ts')
  for (const path of others) {
    expect(imports(path), path).not.toContain('ky')
    expect(read(path), path).not.toMatch(
      /\bfetch\(|XMLHttpRequest|sendBeacon|EventSource|WebSocket/,
    )
  }
})

test('only src/api uses query keys', () => {
  for (const path of dashboard.filter((path) => !path.startsWith('src/api/'))) {
    expect(read(path), path).not.toMatch(/queryKey|mutationKey|setQueryData|invalidateQueries/)
  }
})

test('a query key and a mutation key is each written once', () => {
  const keys = dashboard.flatMap((path) =>
    [...read(path).matchAll(/(?:queryKey|mutationKey): \['([^']+)'/g)].map((match) => match[1]),
  )
  expect(keys.length).toBeGreaterThan(4)
  expect(new Set(keys).size).toBe(keys.length)
})

test('only the settings say which services there are', () => {
  const saying = [...dashboard, 'index.html'].filter((path) =>
    /hubspot|slack/i.test(read(path).replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '')),
  )
  expect(saying).toEqual(['src/parse-config.ts'])
})

test('no check of types is switched off', () => {
  for (const path of everything) {
    expect(read(path), path).not.toMatch(/@ts-(ignore|nocheck|expect-error)/)
  }
})

test.each(Object.entries(endpoints))(
  'the mock backend answers the endpoint %s of the contract',
  async (_name, { method, path }) => {
    const { handlers } = createBackend({ codes: new Set(['abc']) })
    const address = `http://localhost${path.replace(':provider', 'hubspot')}?code=abc`
    const request =
      method === 'POST'
        ? new Request(address, {
            method,
            headers: { 'content-type': 'application/json' },
            body: '{"rules":[]}',
          })
        : new Request(address, { method })
    const response = await getResponse(handlers, request)
    expect(response?.ok).toBe(true)
  },
)

test('the catalogue is the table of the specification', () => {
  expect(
    ruleCatalogue.map(({ name, available, rules }) => [name, available, rules.map(({ id }) => id)]),
  ).toEqual([
    ['Deals', true, ['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan']],
    [
      'Contacts',
      false,
      [
        'contact-added-to-high-value-deal',
        'contact-decision-maker-added',
        'contact-unsubscribed-all',
      ],
    ],
    [
      'Companies',
      false,
      [
        'company-created-without-contacts',
        'company-became-customer',
        'company-marked-target-account',
      ],
    ],
    [
      'Invoices',
      false,
      ['invoice-created', 'invoice-paid', 'invoice-overdue', 'invoice-high-value'],
    ],
    ['Custom', false, ['custom-rule']],
  ])
})
