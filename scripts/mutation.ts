// `npm run mutation [area …]`: changes the code in small ways, one at a time, and sees whether a test notices.
// What it found stands in reports/mutation/, and is summed up for docs/mutation.md at the end.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { Stryker } from '@stryker-mutator/core'
import { areas } from '../tests/mutation/areas.ts'

const reports = 'reports/mutation'
const reportOf = (area: string) => `${reports}/${area}.json`
/** The least share of noticed mutants, in percent: over all, and for what guards state, signature and secrets. */
const least = { all: 90, careful: 95 }
const careful = [
  'server/api/authorization.ts',
  'server/providers/hubspot/signature.ts',
  'server/people/vault.ts',
]

mkdirSync(reports, { recursive: true })
const asked = process.argv.slice(2)
for (const name of asked.length > 0 ? asked : Object.keys(areas)) {
  const area = areas[name]
  if (area === undefined)
    throw new Error(`There is no area ${name}: ${Object.keys(areas).join(', ')}`)
  console.log(`\n${name}: ${area.mutate.join(', ')}`)
  process.env.MUTATION_AREA = name
  // A report that stands there afterwards is of this run.
  rmSync(reportOf(name), { force: true })
  await new Stryker({
    mutate: area.mutate,
    testRunner: 'vitest',
    vitest: { configFile: 'tests/mutation/vitest.config.ts', related: false },
    coverageAnalysis: 'perTest',
    concurrency: Number(process.env.MUTATION_CONCURRENCY ?? Math.ceil(availableParallelism() / 2)),
    // A slow machine is no test that failed.
    timeoutMS: 60_000,
    timeoutFactor: 3,
    // Stryker would read it with TypeScript's old API, which TypeScript 7 has not; Vitest needs no rewrite.
    tsconfigFile: 'no-tsconfig.json',
    tempDirName: 'reports/.stryker',
    ignorePatterns: ['data', 'dist', 'docs', 'reports', 'test-results', 'screenshots'],
    // What neither its code nor its tests have changed is as it was; MUTATION_ALL tries it again.
    incremental: true,
    force: process.env.MUTATION_ALL !== undefined,
    incrementalFile: `reports/mutation-incremental/${name}.json`,
    reporters: ['progress-append-only', 'clear-text', 'json', 'html'],
    clearTextReporter: { allowColor: false, reportTests: false, reportScoreTable: false },
    jsonReporter: { fileName: reportOf(name) },
    htmlReporter: { fileName: `${reports}/${name}.html` },
    allowEmpty: false,
    allowConsoleColors: false,
  }).runMutationTest()
}

interface Report {
  files: Record<string, { mutants: { status: string }[] }>
}

// What an area of earlier days has left there does not count.
const reported = Object.keys(areas).filter((name) => existsSync(reportOf(name)))
const rows = reported
  .flatMap((name) => {
    const report: Report = JSON.parse(readFileSync(reportOf(name), 'utf8'))
    return Object.entries(report.files).map(([file, { mutants }]) => {
      const count = (...statuses: string[]) =>
        mutants.filter(({ status }) => statuses.includes(status)).length
      return {
        file,
        noticed: count('Killed', 'Timeout'),
        unnoticed: count('Survived', 'NoCoverage'),
        ignored: count('Ignored'),
        broken: count('CompileError', 'RuntimeError'),
      }
    })
  })
  .toSorted((a, b) => a.file.localeCompare(b.file))

const share = (noticed: number, unnoticed: number) =>
  noticed + unnoticed === 0 ? 100 : (100 * noticed) / (noticed + unnoticed)
const sum = (pick: (row: (typeof rows)[number]) => number) =>
  rows.reduce((total, row) => total + pick(row), 0)
const all = {
  file: 'all',
  noticed: sum((row) => row.noticed),
  unnoticed: sum((row) => row.unnoticed),
  ignored: sum((row) => row.ignored),
  broken: sum((row) => row.broken),
}

const table = [
  '| file | noticed | not noticed | set aside | share |',
  '|---|---:|---:|---:|---:|',
  ...[...rows, all].map(
    ({ file, noticed, unnoticed, ignored, broken }) =>
      `| ${file} | ${noticed} | ${unnoticed} | ${ignored + broken} | ${share(noticed, unnoticed).toFixed(1)} % |`,
  ),
].join('\n')
writeFileSync(`${reports}/summary.md`, `${table}\n`)
console.log(`\n${table}`)

const missed = [...rows, all].filter(
  ({ file, noticed, unnoticed }) =>
    share(noticed, unnoticed) <
    (careful.includes(file) ? least.careful : file === 'all' ? least.all : 0),
)
if (missed.length > 0) {
  console.error(`\nToo few are noticed in: ${missed.map(({ file }) => file).join(', ')}`)
  process.exitCode = 1
}

// What has no figures cannot have bad ones. Who names areas has the others' where they were tried before.
const missing = [
  ...Object.keys(areas).filter((name) => !reported.includes(name)),
  ...careful.filter((file) => !rows.some((row) => row.file === file)),
]
if (asked.length === 0 && missing.length > 0) {
  console.error(`\nThere are no figures of: ${missing.join(', ')}`)
  process.exitCode = 1
}
