import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { promtool as program } from '../../scripts/programs.ts'

const promtool = program.find()

test.runIf(promtool)('each alert of docs/operating comes in its time, and no other one', () => {
  // alerts.yml has the times.
  const { status, stdout, stderr } = spawnSync(promtool ?? '', ['test', 'rules', 'alerts.yml'], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  })
  expect(`${stdout}${stderr}`).toMatch(/SUCCESS/)
  expect(status).toBe(0)
})
