// `npm run mutation [area …]` makes small changes to the code (mutants), one at a time. At least
// one test must fail for each. It writes reports/mutation/ and prints a table. An area takes minutes, and its tests are
// those of tests/mutation/areas.ts, so a mutant that only another test notices counts as not noticed. MUTATION_CONCURRENCY
// says how many run at once; MUTATION_ALL repeats what has not changed.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { Stryker } from '@stryker-mutator/core'
import { areas } from '../tests/mutation/areas.ts'

const reports = 'reports/mutation'
const reportOf = (area: string) => `${reports}/${area}.json`
/** The required share of detected mutants in percent: of all files, and of each `careful` file. */
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
    throw new Error(`There is no area ${name}. Areas: ${Object.keys(areas).join(', ')}`)
  console.log(`\n${name}: ${area.mutate.join(', ')}`)
  process.env.MUTATION_AREA = name
  // Delete the old report, so that a report that exists afterwards comes from this run.
  rmSync(reportOf(name), { force: true })
  await new Stryker({
    mutate: area.mutate,
    testRunner: 'vitest',
    vitest: { configFile: 'tests/mutation/vitest.config.ts', related: false },
    coverageAnalysis: 'perTest',
    concurrency: Number(process.env.MUTATION_CONCURRENCY ?? Math.ceil(availableParallelism() / 2)),
    // Long limits, because a test that times out on a slow machine looks like a detected mutant.
    timeoutMS: 60_000,
    timeoutFactor: 3,
    // Name a file that does not exist: Stryker would read tsconfig.json with an API that TypeScript
    // 7 no longer has. Vitest does not need the changes that Stryker would make to tsconfig.json.
    tsconfigFile: 'no-tsconfig.json',
    tempDirName: 'reports/.stryker',
    ignorePatterns: ['data', 'dist', 'reports', 'test-results', 'screenshots'],
    // Skip mutants whose code and tests have not changed. MUTATION_ALL runs them again.
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

// Ignore reports of areas that no longer exist.
const reported = Object.keys(areas).filter((name) => existsSync(reportOf(name)))
const rows = reported
  .flatMap((name) => {
    const report: Report = JSON.parse(readFileSync(reportOf(name), 'utf8'))
    return Object.entries(report.files).map(([file, { mutants }]) => {
      const count = (...statuses: string[]) =>
        mutants.filter(({ status }) => statuses.includes(status)).length
      return {
        file,
        detected: count('Killed', 'Timeout'),
        undetected: count('Survived', 'NoCoverage'),
        ignored: count('Ignored'),
        broken: count('CompileError', 'RuntimeError'),
      }
    })
  })
  .toSorted((a, b) => a.file.localeCompare(b.file))

const share = (detected: number, undetected: number) =>
  detected + undetected === 0 ? 100 : (100 * detected) / (detected + undetected)
const sum = (pick: (row: (typeof rows)[number]) => number) =>
  rows.reduce((total, row) => total + pick(row), 0)
const all = {
  file: 'all',
  detected: sum((row) => row.detected),
  undetected: sum((row) => row.undetected),
  ignored: sum((row) => row.ignored),
  broken: sum((row) => row.broken),
}

const table = [
  '| file | detected | not detected | ignored | share |',
  '|---|---:|---:|---:|---:|',
  ...[...rows, all].map(
    ({ file, detected, undetected, ignored, broken }) =>
      `| ${file} | ${detected} | ${undetected} | ${ignored + broken} | ${share(detected, undetected).toFixed(1)} % |`,
  ),
].join('\n')
writeFileSync(`${reports}/summary.md`, `${table}\n`)
console.log(`\n${table}`)

const missed = [...rows, all].filter(
  ({ file, detected, undetected }) =>
    share(detected, undetected) <
    (careful.includes(file) ? least.careful : file === 'all' ? least.all : 0),
)
if (missed.length > 0) {
  console.error(`\nToo few mutants are detected in: ${missed.map(({ file }) => file).join(', ')}`)
  process.exitCode = 1
}

// A run of all areas must report each of them. A run of named areas reuses the other reports.
const missing = [
  ...Object.keys(areas).filter((name) => !reported.includes(name)),
  ...careful.filter((file) => !rows.some((row) => row.file === file)),
]
if (asked.length === 0 && missing.length > 0) {
  console.error(`\nThere is no report of: ${missing.join(', ')}`)
  process.exitCode = 1
}
