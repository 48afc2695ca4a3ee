import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { type Backend, databaseKinds, openTestDatabase, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside, usualStages } from './outside.ts'

describe.each(databaseKinds)('on %s', (kind) => {
  let open: OpenDatabase
  let outside: Outside
  let backend: Backend
  // Each test has accounts and channels of its own on one database.
  let portal = 1000
  let channel = ''

  beforeAll(async () => {
    open = await openTestDatabase(kind)
    outside = await openOutside()
    backend = await startBackend(open, outside)
  })
  beforeEach(() => {
    portal += 1
    channel = `C${portal}`
  })
  afterEach(() => {
    outside.answerPost = () => undefined
    outside.answerRead = () => undefined
    outside.answerRefresh = () => undefined
    outside.stages = usualStages
  })
  afterAll(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })

  const posts = () => outside.posts.filter((post) => post.channel === channel)

  test('a deal that moves is said in the channel', async () => {
    await backend.connect({ portal, channel })
    outside.deals.set('1', {
      name: 'Acme renewal',
      amount: '1200',
      currency: 'USD',
      history: [{ value: 'start', timestamp: '2020-01-01T00:00:00Z' }],
    })
    expect(await backend.tell([stageChange(1, { portal })])).toBe(204)
    await backend.settled()
    expect(posts().map(({ text }) => text)).toEqual([
      '🔔 Acme renewal moved to Proposal sent ($1,200.00)',
    ])
    expect(posts()[0]?.blocks).toContain(
      `<https://app.hubspot.com/contacts/${portal}/record/0-3/1|Acme renewal>`,
    )
    expect(posts()[0]?.blocks).toContain('Appointment → *Proposal sent*')
  })

  test('50 copies of one event at once are one message', async () => {
    await backend.connect({ portal, channel })
    const event = stageChange(2, { portal })
    const copies = Array.from({ length: 50 }, (_, attemptNumber) => ({
      ...event,
      attemptNumber,
      eventId: attemptNumber,
    }))
    const answers = await Promise.all(copies.map((copy) => backend.tell([copy])))
    expect(new Set(answers)).toEqual(new Set([204]))
    await backend.settled()
    expect(posts()).toHaveLength(1)
  })
})
