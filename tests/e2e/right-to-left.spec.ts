import { expect, type Locator } from '@playwright/test'
import { HttpResponse, http } from 'msw'
import type { ChatMessage } from '../../server/providers/chat-message.ts'
import { discord } from '../../server/providers/discord/discord.ts'
import { googleChat } from '../../server/providers/google-chat/google-chat.ts'
import { mattermost } from '../../server/providers/mattermost/mattermost.ts'
import { teams } from '../../server/providers/microsoft-teams/microsoft-teams.ts'
import { slackMessage } from '../../server/providers/slack/blocks.ts'
import { dealRules } from '../../server/relay/decide/rules.ts'
import { digestOf } from '../../server/relay/write/digest.ts'
import { messageFor, plainMessageFor } from '../../server/relay/write/message.ts'
import { createStandInByAddress } from '../../stand-ins/by-address.ts'
import { standInDiscord } from '../../stand-ins/discord/discord.ts'
import { standInGoogleChat } from '../../stand-ins/google-chat/google-chat.ts'
import { standInMattermost } from '../../stand-ins/mattermost/mattermost.ts'
import { standInTeams } from '../../stand-ins/microsoft-teams/microsoft-teams.ts'
import { StandInChannels } from '../../stand-ins/slack/account.ts'
import { readBlocks } from '../../stand-ins/slack/blocks.ts'
import { createSlackPages } from '../../stand-ins/slack/pages.ts'
import { StandInCodes } from '../../stand-ins/tokens.ts'
import { sentItem } from '../msw/activity.ts'
import { createBackend } from '../msw/handlers.ts'
import { stageMove, stages } from '../relay/change.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'

// Only a browser knows where it places what it shows.

// The last one has only digits, and digits between two Arabic ones go from right to left, too.
const pairs = [
  ['הצעת מחיר (1)', 'סגור!'],
  ['عرض السعر', 'تم الفوز'],
  ['הצעת מחיר', 'تم الفوز'],
  ['Proposal', 'סגור'],
  ['סגור', 'Proposal'],
  ['٣', '٤'],
] as const
const name = 'חידוש אקמה'

/** Expects an element to show these texts beside each other, from left to right, as they follow each other in it. */
async function expectInOrder(element: Locator, words: readonly string[]) {
  const boxes = await element.evaluate((root, wanted) => {
    const nodes: Text[] = []
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) nodes.push(walker.currentNode as Text)
    const all = nodes.map(({ data }) => data).join('')
    let end = 0
    return wanted.map((word) => {
      const start = all.indexOf(word, end)
      if (start < 0) throw new Error(`'${word}' is not in '${all.slice(end)}'.`)
      end = start + word.length
      const range = document.createRange()
      let at = 0
      for (const node of nodes) {
        const inNode = (place: number) => place - at
        if (start >= at && start < at + node.length) range.setStart(node, inNode(start))
        if (end > at && end <= at + node.length) range.setEnd(node, inNode(end))
        at += node.length
      }
      const { left, right, top, bottom } = range.getBoundingClientRect()
      return { word, left, right, middle: (top + bottom) / 2 }
    })
  }, words)
  for (const [at, { word, left, middle }] of boxes.entries()) {
    const former = boxes[at - 1]
    if (former === undefined) continue
    expect(left, `'${word}' stands after '${former.word}'`).toBeGreaterThanOrEqual(former.right - 1)
    expect(Math.abs(middle - former.middle), 'they share a line').toBeLessThan(8)
  }
}

test('names from right to left do not change places in Activity and on the dashboard', async ({
  page,
}) => {
  const items = pairs.map(([from, to], n) =>
    sentItem(`${n}`, {
      deal: { name, url: 'https://crm.example/1' },
      ...{ from, to, channel: to, state: 'failed', tries: 3, rule: null, reason: null },
    }),
  )
  await page.setViewportSize({ width: 1280, height: 900 })
  await showState(page, {
    name: 'Right to left',
    address: '/activity',
    backend: () => createBackend({ features: ['activity'], activity: { items } }).handlers,
    shows: name,
  })
  for (const [n, [from, to]] of pairs.entries()) {
    const row = page.getByRole('listitem').filter({ hasText: name }).nth(n)
    await expectInOrder(row.locator('p').first(), [name, from, '→', to])
  }

  const [, [account, channel]] = pairs
  await showState(page, {
    name: 'Right to left',
    address: '/',
    backend: () => [
      http.get('*/api/:provider/status', () =>
        HttpResponse.json({ connected: true, account, channel, channelAsOf: '2026-11-20' }),
      ),
      ...createBackend({ features: ['activity'] }).handlers,
    ],
    shows: channel,
  })
  const names = page.getByRole('status').filter({ hasText: channel }).first()
  await expectInOrder(names, ['Connected', account, '·', channel, 'as of'])
})

const site = { appUrl: 'http://localhost', pages: {} }
const byAddress = [
  ['discord', discord, standInDiscord],
  ['google-chat', googleChat, standInGoogleChat],
  ['mattermost', mattermost, standInMattermost],
  ['microsoft-teams', teams, standInTeams],
] as const

/** Posts messages to a stand-in. Returns its channel's page. */
type ShowMessages = (messages: readonly ChatMessage[]) => Promise<string>

const chats: Record<string, ShowMessages> = {
  async slack(messages) {
    const channels = new StandInChannels()
    for (const message of messages) {
      const { text, blocks } = slackMessage(message)
      const read = readBlocks(text, blocks.length > 0 ? blocks : undefined)
      if (!Array.isArray(read)) throw new Error(read.error)
      channels.post(`${channels.latest}`, text, read)
    }
    const app = createSlackPages({
      site: { ...site, id: 'slack' },
      settings: {
        clientId: '',
        clientSecret: '',
        authorizeUrl: '',
        apiUrl: '',
        inUse: true,
        standIn: true,
      },
      appUrl: site.appUrl,
      list: '',
      codes: new StandInCodes(),
      channels,
    })
    return (await app.request(`/channels/${channels.latest}`)).text()
  },
  ...Object.fromEntries(
    byAddress.map(([id, chat, standIn]): [string, ShowMessages] => [
      id,
      async (messages) => {
        const app = createStandInByAddress({ ...site, id }, standIn)
        const address = new URL('http://localhost/services/sales')
        for (const [n, message] of messages.entries()) {
          const { url = address, json } = chat.request(message, [n], address)
          await app.request(url.href, { method: 'POST', body: JSON.stringify(json) })
        }
        return (await app.request('/')).text()
      },
    ]),
  ),
}

const said = pairs.flatMap(([from, to]): [ChatMessage, string[][]][] => {
  const change = stageMove({ ...stages.open, label: from }, { ...stages.next, label: to })
  const ruleId = 'deal-stage-changed'
  const headline = dealRules[ruleId].headline(change)
  const deal = { ...change.deal, name, ownerName: to }
  const entry = { ruleId, headline, deal, ownerId: null, pipeline: from } as const
  const moved = [name, 'moved to', to]
  const facts = [from, '→', to, '·', '€12,500']
  return [
    [messageFor(entry), [moved, [...facts, '·', 'Owner', to], ['Pipeline', from]]],
    [digestOf([entry], () => true).message, [[name, ...facts]]],
    [plainMessageFor(entry), [[...moved, '€12,500']]],
  ]
})

for (const [chat, show] of Object.entries(chats)) {
  test(`names from right to left do not change places in a message of ${chat} @all`, async ({
    page,
  }) => {
    await page.setViewportSize({ width: 1280, height: 900 })
    await page.setContent(await show(said.map(([message]) => message)))
    await page.addStyleTag({ path: 'stand-ins/style.css' })
    const list = page.getByRole('list', { name: 'Messages' })
    // A chat may take the direction of a line from its first letter.
    for (const dir of ['ltr', 'auto']) {
      await list.locator('p').evaluateAll((all, dir) => {
        for (const each of all) each.setAttribute('dir', dir)
      }, dir)
      for (const [n, [, lines]] of said.entries()) {
        for (const words of lines) {
          const lines = words.reduce(
            (some, hasText) => some.filter({ hasText }),
            list.locator('> li').nth(n).locator('p'),
          )
          await expectInOrder(lines.last(), words)
        }
      }
    }
  })
}
