import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'
import { dashboard, server } from '../../vitest.config.ts'
import { areas } from './areas.ts'

const area = areas[process.env.MUTATION_AREA ?? '']
if (area === undefined) throw new Error(`MUTATION_AREA is one of ${Object.keys(areas).join(', ')}`)

// The tests of one area. Stryker runs them in a copy of the project.
export default defineConfig({
  plugins: [react()],
  test: {
    restoreMocks: true,
    unstubEnvs: true,
    include: area.tests,
    // The stories of the model, and one random run.
    env: { MODEL_RUNS: '1' },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    ...(area.project === 'dashboard' ? dashboard : server),
  },
})
