import { tanstackRouter } from '@tanstack/router-plugin/vite'
import react from '@vitejs/plugin-react'
import { loadEnv } from 'vite'
import { defineConfig } from 'vitest/config'
import { budget, pageBudget } from './build/budget.ts'
import { precompress } from './build/precompress.ts'
import { preload } from './build/preload.ts'
import { security } from './build/security.ts'
import { states } from './build/states.ts'
import { backendRoots } from './contract/endpoints.ts'
import { parseConfig } from './src/parse-config.ts'

export default defineConfig(({ mode }) => {
  // Nonsense in a VITE_ setting stops the build here, with a list of what is wrong.
  const config = parseConfig(loadEnv(mode, import.meta.dirname, 'VITE_'))

  return {
    plugins: [
      tanstackRouter({
        target: 'react',
        quoteStyle: 'single',
        // Unit tests take the routes whole; the browser tests take them as they are shipped.
        autoCodeSplitting: process.env.VITEST === undefined,
        disableLogging: true,
      }),
      react(),
      preload(config),
      budget(pageBudget),
      security(config),
      precompress(),
      states(),
    ],
    build: {
      // The page asks for its scripts itself (build/page.ts).
      modulePreload: false,
      rolldownOptions: {
        // One script for what every address needs, one for each route: more would only wait for each other.
        output: {
          codeSplitting: {
            groups: [
              { name: 'main', tags: ['$initial'], test: (id) => !id.endsWith('/src/boot.ts') },
            ],
          },
          // Nearly all of it runs at the start: Chromium then compiles it while it comes in, beside the
          // main thread, and not function by function at the first call.
          postBanner: '//# allFunctionsCalledOnLoad',
        },
      },
    },
    server: {
      port: 5173,
      // `npm run dev`: one origin for the page and the backend, as in production.
      proxy: Object.fromEntries(
        backendRoots.map((root) => [
          `/${root}`,
          { target: `http://localhost:${process.env.PORT ?? 3000}`, changeOrigin: false },
        ]),
      ),
    },
    test: {
      // Many tests wait more than they work.
      maxWorkers: '100%',
      restoreMocks: true,
      unstubEnvs: true,
      projects: [
        {
          extends: true,
          test: {
            name: 'dashboard',
            environment: './tests/environment.ts',
            include: ['tests/api/**/*.test.{ts,tsx}', 'tests/components/**/*.test.{ts,tsx}'],
            setupFiles: ['tests/setup.ts'],
            testTimeout: 20_000,
          },
        },
        {
          extends: true,
          test: {
            name: 'server',
            environment: 'node',
            include: [
              'tests/build/**/*.test.ts',
              'tests/conventions/**/*.test.ts',
              'tests/server/**/*.test.ts',
              'tests/contract/**/*.test.ts',
            ],
            testTimeout: 20_000,
            hookTimeout: 30_000,
          },
        },
        {
          extends: true,
          test: {
            name: 'relay',
            environment: 'node',
            include: ['tests/relay/**/*.test.ts'],
            exclude: ['tests/relay/{acknowledgements,{crash,chaos}-*}.test.ts'],
            globalSetup: ['tests/relay/postgres.ts'],
            // Ten kills and recoveries take their time, and more of it on a loaded machine.
            testTimeout: 300_000,
            hookTimeout: 60_000,
          },
        },
        {
          extends: true,
          test: {
            name: 'acknowledgements',
            environment: 'node',
            include: ['tests/relay/acknowledgements.test.ts'],
            globalSetup: ['tests/relay/postgres.ts'],
            testTimeout: 120_000,
            // A time is measured, so everything else has ended.
            sequence: { groupOrder: 1 },
          },
        },
        // Minutes of killed processes: `npm run test:holds`.
        {
          extends: true,
          test: {
            name: 'holds',
            environment: 'node',
            include: ['tests/relay/{crash,chaos}-*.test.ts'],
            globalSetup: ['tests/relay/postgres.ts'],
            // Ten kills and recoveries take their time, and more of it on a loaded machine.
            testTimeout: 300_000,
            hookTimeout: 60_000,
          },
        },
      ],
    },
  }
})
