import { tanstackRouter } from '@tanstack/router-plugin/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type UserConfig } from 'vite'
import { budget, pageBudget } from './build/budget.ts'
import { buildInfo } from './build/build-info.ts'
import { devtools } from './build/devtools.ts'
import { lateSchemas } from './build/late-schemas.ts'
import { precompress } from './build/precompress.ts'
import { preload } from './build/preload.ts'
import { security } from './build/security.ts'
import { settings } from './build/settings.ts'
import { states } from './build/states.ts'
import { loadEnvFile } from './server/settings/env-file.ts'
import { parseConfig } from './src/parse-config.ts'

export default defineConfig((): UserConfig => {
  // Like the server, read only .env, so that both always see the same settings.
  loadEnvFile(import.meta.dirname)
  // An invalid VITE_ setting stops the build here.
  const config = parseConfig(process.env)

  return {
    envDir: false,
    plugins: [
      tanstackRouter({
        target: 'react',
        quoteStyle: 'single',
        autoCodeSplitting: true,
        disableLogging: true,
      }),
      react(),
      settings(config),
      lateSchemas(),
      preload(config),
      budget(pageBudget),
      security(config),
      precompress(),
      buildInfo(config),
      devtools(),
      states(),
    ],
    build: {
      // src/boot.ts loads what Vite would preload (build/preload.ts).
      modulePreload: false,
      // One style sheet, and the one that src/late/load.ts loads. Otherwise each script that imports
      // another one later would list the style sheet in its first line, which belongs to the hint below.
      cssCodeSplit: false,
      rolldownOptions: {
        output: {
          // One script for what every address needs, and one for each route. Over HTTP/1.1 more
          // scripts would wait for each other.
          codeSplitting: {
            groups: [
              { name: 'main', tags: ['$initial'], test: (id) => !id.endsWith('/src/boot.ts') },
            ],
          },
          // Nearly all functions run at the start. Chromium then compiles each script while it
          // downloads, outside the main thread, instead of each function at its first call.
          postBanner: '//# allFunctionsCalledOnLoad',
        },
      },
    },
  }
})
