import { tanstackRouter } from '@tanstack/router-plugin/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type UserConfig } from 'vite'
import { boot, withoutRocketLoader } from './build/boot.ts'
import { publish } from './build/publish.ts'
import { security } from './build/security.ts'
import { settings } from './build/settings.ts'
import { loadEnvFile } from './server/settings/env-file.ts'
import { parseConfig } from './src/parse-config.ts'

export default defineConfig(({ command }): UserConfig => {
  // A process manager, a container or a profile may set it for other programs. It would build React for development.
  if (command === 'build') process.env.NODE_ENV = 'production'
  // Like the server, read only .env, so that both always see the same settings.
  loadEnvFile(import.meta.dirname)
  requireUsableFolder(import.meta.dirname)
  // An invalid VITE_ setting stops the build here.
  const config = parseConfig(process.env)

  return {
    envDir: false,
    plugins: [
      tanstackRouter({
        target: 'react',
        quoteStyle: 'single',
        autoCodeSplitting: true,
        // Most visits are of the dashboard, so its component is in the main script.
        codeSplittingOptions: {
          splitBehavior: ({ routeId }) => (routeId === '/' ? [] : undefined),
        },
        disableLogging: true,
      }),
      react(),
      settings(config),
      boot(config),
      withoutRocketLoader,
      security(config),
      publish(config),
    ],
    build: {
      // README.md names them. A test holds the functions to them, and src/tsconfig.json the version of JavaScript.
      target: ['chrome114', 'edge114', 'firefox128', 'safari17'],
      // src/boot.ts starts the only download that must not wait for its import.
      modulePreload: false,
      // One style sheet. Otherwise each script that imports another one later would list the style sheet
      // in its first line, which belongs to the hint below.
      cssCodeSplit: false,
      rolldownOptions: {
        // Which plugin took how long tells nothing to whoever types `npm start`.
        checks: { pluginTimings: false },
        output: {
          // One script for what every address needs, and one for each other route. Over HTTP/1.1 more scripts
          // would wait for each other.
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

/** A package writes the folder's name into an import as it is (TanStack/router #7754), and Vite reads a path as a URL. */
function requireUsableFolder(folder: string): void {
  const [character] = /['#?]/.exec(folder) ?? []
  if (character === undefined) return
  const error = new Error(
    `The name of the folder ${folder} has the character ${character}, which the build does not understand. Rename the folder.`,
  )
  // Whoever renames it needs only the message.
  error.stack = error.message
  throw error
}
