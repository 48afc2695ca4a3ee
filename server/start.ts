import { setTimeout as delay } from 'node:timers/promises'
import project from '../package.json' with { type: 'json' }
import { createBackend } from './backend.ts'
import { startCleanup } from './clean/clean.ts'
import { keepIndexes } from './database/indexes.ts'
import type { FolderLock } from './database/lock.ts'
import { maintainPglite } from './database/maintenance.ts'
import { hstsOf } from './http/safety-headers.ts'
import { createHttpServer } from './http/server.ts'
import { createLog, errorFields } from './log.ts'
import { readBuiltPage } from './page/build.ts'
import { checkKeys, checkSharedKey, sealWithNewestKey } from './people/keys.ts'
import { forgetStandIns } from './people/stand-ins.ts'
import { createVault, keyFromFolder } from './people/vault.ts'
import { isAddressId, mainSettingOf, providerIds, registry } from './providers/registry.ts'
import { openDatabase } from './settings/open-database.ts'
import { dataDirError, listenError } from './settings/open-errors.ts'
import { standInForm, standInPaths } from './settings/providers.ts'
import { loopback, type Settings } from './settings/settings.ts'
import { logLinesLost, watchProcess } from './watch/metrics.ts'

const requestGraceMs = 8_000
/** Process managers often kill a process that does not end within ten seconds. */
const stopWithinMs = 9_500

/** Opens database and port, and closes them in order on SIGTERM and SIGINT. */
export async function start(settings: Settings, lock: FolderLock | undefined): Promise<void> {
  const log = createLog(settings.logLevel)
  process.on('uncaughtException', (error, origin) => {
    log.error('uncaught error', { origin, ...errorFields(error) })
    process.exit(1)
  })
  // Who read the log may have gone. Without a listener, that would end the process.
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', () => logLinesLost.inc())
  const dashboard = settings.serveDashboard ? await readBuiltPage() : undefined
  const encryptionKeys = settings.encryptionKeys ?? [
    await keyFromFolder(settings.dataDir, log).catch((error: unknown) => {
      throw dataDirError(settings, error)
    }),
  ]
  const { database, hasRoom, pool, close } = await openDatabase(settings, {
    onIdleError: (error) => log.warn('idle database connection lost', errorFields(error)),
    onBlocked: (error) => log.warn('migration waits for a table', errorFields(error)),
    warn: (sentence) => log.warn(sentence),
  })
  const vault = createVault(encryptionKeys)
  const keys = await checkKeys(database, vault)
  if (settings.databaseUrl !== undefined) await checkSharedKey(database, vault)
  await sealWithNewestKey(database, vault, keys)
  await forgetStandIns(database, settings.addressesAt(settings.port).providers, log)

  const { trustedProxies } = settings
  const hsts = hstsOf({ ...settings, ...settings.addressesAt(settings.port) })
  const http = createHttpServer({ trustedProxies, hsts, log })
  const port = await http.listen(settings.port, settings.hosts).catch((error: unknown) => {
    throw listenError(settings, error)
  })
  // No await from here to the handler: a request that arrived meanwhile would never be answered.
  const addresses = settings.addressesAt(port)
  const { app, relay, catchUp, checks, watch } = createBackend({
    database,
    hasRoom,
    pool,
    encryptionKeys,
    addresses,
    dashboard,
    // PGlite's folder belongs to this process only.
    alone: settings.databaseUrl === undefined,
    trustedProxies,
    metricsToken: settings.metricsToken,
    hstsMaxAge: settings.hstsMaxAge,
    log,
  })
  http.serve(app.fetch)

  watchProcess()
  const upkeep =
    settings.databaseUrl === undefined
      ? maintainPglite({ database, hasRoom, log })
      : keepIndexes({ url: settings.databaseUrl, log })
  const cleanup = startCleanup({
    database,
    vacuum: settings.databaseUrl === undefined,
    hasRoom,
    log,
  })
  let stopping: { signal: NodeJS.Signals; since: number } | undefined
  async function stop(signal: NodeJS.Signals): Promise<void> {
    if (stopping !== undefined) {
      // With npm, one Ctrl-C sends two signals: one from the terminal and one from npm.
      if (signal === stopping.signal && performance.now() - stopping.since < 300) return
      process.exit(signal === 'SIGINT' ? 130 : 143)
    }
    stopping = { signal, since: performance.now() }
    console.log('Stopping …')
    watch.stopping()
    // Ctrl-C comes from a person, who does not want to wait.
    const delayMs = signal === 'SIGTERM' ? settings.stopDelayMs : 0
    // A provider may take longer to answer. What is cut then is sent again after the next start.
    setTimeout(() => {
      log.warn('stopped before everything had ended')
      lock?.release()
      process.exit(1)
    }, delayMs + stopWithinMs)
    if (delayMs > 0) await delay(delayMs)
    const background = [relay, catchUp, checks, cleanup, upkeep].map((each) => each.stop())
    await Promise.all([http.close(requestGraceMs), ...background])
    await close()
    lock?.release()
    process.exit(0)
  }
  // Before anybody learns that the server listens. Otherwise a signal would kill it at once.
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)

  // Without the dashboard, another host answers at APP_URL.
  const places = settings.hosts.map((host) => host ?? 'all addresses').join(' and ')
  console.log(
    settings.serveDashboard
      ? `Dealbell ${project.version} listens on port ${port} of ${places}. Open ${addresses.appUrl}`
      : `The server of Dealbell ${project.version} listens on http://localhost:${port}`,
  )
  if (settings.hosts === loopback) {
    console.log(
      'Only this machine can open it, because stand-ins check nobody. ALLOW_STAND_INS=true lets others in.',
    )
  }
  for (const id of providerIds) {
    if (!addresses.providers[id].standIn) continue
    const { name } = registry[id]
    console.log(
      isAddressId(id)
        ? `${name} has a stand-in on this server, beside the real one.`
        : `${name} is a stand-in: set ${mainSettingOf(id)} for the real one.`,
    )
  }
  if (dashboard?.contactFormUrl === standInForm && !('contact-form' in standInPaths(addresses))) {
    console.log('The page /contact has no form: set VITE_CONTACT_FORM_URL, and build again.')
  }
  // `npm run dev` waits for this message.
  process.send?.('ready')

  await relay.start()
  catchUp.start()
  checks.start()
}
