import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const workflow = readFileSync(
  join(resolve(import.meta.dirname, '../..'), '.github/workflows/ci.yml'),
  'utf8',
)

test('the workflow runs .ci/run', () => {
  expect(workflow).toMatch(/^ {6}- run: \.ci\/run$/m)
})

test('the workflow pins each action by its commit, and names the version', () => {
  const uses = workflow.split('\n').filter((line) => line.includes('uses:'))
  expect(uses.length).toBeGreaterThan(1)
  for (const line of uses) expect(line).toMatch(/uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
})

test('the workflow can only read the repository, and gets no secret', () => {
  expect(workflow.match(/permissions:[\s\S]*?\n\n/g)).toEqual([
    'permissions:\n  contents: read\n\n',
  ])
  expect(workflow).toMatch(/actions\/checkout@.*\n {8}with:\n {10}persist-credentials: false/)
  expect(workflow).not.toMatch(/secrets|GITHUB_TOKEN|github\.token|pull_request_target/)
})
