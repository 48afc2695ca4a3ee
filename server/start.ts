import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { createApp } from './app.ts'
import type { FolderLock } from './database/lock.ts'
import { openPglite, openPostgres } from './database/open.ts'
import { answerUnreadable } from './http/safety-headers.ts'
import { logToStderr as log } from './log.ts'
import { ensurePageBuilt, readBuiltPage } from './page/build.ts'
import { checkKeys, checkSharedKey, sealWithNewestKey } from './people/connections.ts'
import { forgetDaily, forgetEndedSessions } from './people/session.ts'
import { createVault, keyFromFolder } from './people/vault.ts'
import { createHubspot } from './providers/hubspot/hubspot.ts'
import { createSlack } from './providers/slack/slack.ts'
import { createInbox } from './relay/inbox.ts'
import { operatorRoutes, operatorToken } from './relay/operator.ts'
import { createRelay } from './relay/relay.ts'
import { openWakeQueue } from './relay/wake-queue.ts'
import { webhookRoutes } from './relay/webhook.ts'
import { createSandbox } from './sandbox/sandbox.ts'
import type { Settings } from './settings.ts'

/** Opens the database, listens, and ends it all in order when it is told to. */
export async function start(settings: Settings, lock: FolderLock | undefined): Promise<void> {
  if (settings.serveDashboard) await ensurePageBuilt(console.log)

  const keys = settings.encryptionKeys ?? [await keyFromFolder(settings.dataDir)]
  const vault = createVault(keys)
  const { database, queueDatabase, close } =
    settings.databaseUrl === undefined
      ? await openPglite(join(settings.dataDir, 'pglite'))
      : await openPostgres(settings.databaseUrl, () => log('idle database connection lost'))
  // PGlite's folder is ours alone, and with it the queue.
  const alone = settings.databaseUrl === undefined
  await checkKeys(database, vault)
  if (!alone) await checkSharedKey(database, vault)
  await sealWithNewestKey(database, vault)
  await forgetEndedSessions(database, new Date())
  const forgetting = forgetDaily(database, { now: () => new Date(), log })

  const queue = await openWakeQueue(queueDatabase, { embedded: alone, log })

  const dashboard = settings.serveDashboard ? await readBuiltPage() : undefined

  const server = createServer()
  server.listen(settings.port)
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error
    throw new Error(
      `Port ${settings.port} is taken. Set PORT to another one, or to 0 for a free one.`,
    )
  })
  // No await from here to the handler: a request that came between them would never be answered.
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : settings.port
  const { appUrl, hubspot, slack } = settings.addressesAt(port)

  const providers = { hubspot: createHubspot(hubspot), slack: createSlack(slack) }
  const { hubspot: crm, slack: chat } = providers
  const relay = createRelay({ database, vault, crm, chat, queue, log, alone })
  const app = createApp({
    database,
    vault,
    providers,
    appUrl,
    dashboard,
    sandbox: createSandbox({ appUrl, hubspot, slack }),
    webhooks: webhookRoutes({
      inbox: createInbox({ database, queue }, relay.ring),
      clientSecret: hubspot.clientSecret,
      appUrl,
      now: () => new Date(),
      log,
    }),
    operator: operatorRoutes({
      database,
      queue,
      token: operatorToken(keys),
      onReplayed: relay.ring,
    }),
    now: () => new Date(),
    log,
  })
  const errorHandler = answerUnreadable(server, { https: appUrl.startsWith('https:') })
  server.on('request', getRequestListener(app.fetch, { errorHandler }))
  console.log(`Dealbell listens on ${appUrl}`)
  if (hubspot.standIn) console.log('HubSpot is a stand-in: set HUBSPOT_CLIENT_ID for the real one.')
  if (slack.standIn) console.log('Slack is a stand-in: set SLACK_CLIENT_ID for the real one.')

  let stopping: { signal: NodeJS.Signals; since: number } | undefined
  // A browser keeps its connection after the answer; that must not hold up the end.
  server.on('request', (_request, response) =>
    response.on('close', () => {
      if (stopping !== undefined) setImmediate(() => server.closeIdleConnections())
    }),
  )
  async function stop(signal: NodeJS.Signals): Promise<void> {
    if (stopping !== undefined) {
      // One Ctrl-C under npm arrives twice, from the terminal and from npm.
      if (signal === stopping.signal && Date.now() - stopping.since < 300) return
      process.exit(signal === 'SIGINT' ? 130 : 143)
    }
    stopping = { signal, since: Date.now() }
    console.log('Stopping …')
    server.close()
    await once(server, 'close')
    await forgetting.stop()
    await relay.stop()
    await queue.stop()
    await close()
    lock?.release()
    process.exit(0)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  await relay.start()
}
