import { Hono } from 'hono'
import { html } from 'hono/html'
import { notFromAnotherSite } from '../../server/http/origin.ts'
import { cut } from '../../server/relay/write/text.ts'
import { changeButton, dealsPage, isAmount, maxNameLength } from '../deals-page.ts'
import { formFields } from '../page.ts'
import {
  currency,
  dailyTokens,
  type PipedriveCompany,
  pipelineOf,
  type StandInDeal,
  type StandInUser,
  standInPipelines,
} from './company.ts'
import type { StandInWebhooks } from './webhooks.ts'

const notice =
  'This is not Pipedrive. It plays a Pipedrive company on this machine: what you change here is told to Dealbell as Pipedrive would.'

const statusNames = { open: 'Open', won: 'Won', lost: 'Lost' }
const isStatus = (text: string | undefined): text is keyof typeof statusNames =>
  text !== undefined && Object.hasOwn(statusNames, text)

/** The page on which a person changes the stand-in's deals, and what its users have installed. */
export function createDealsPage(
  { site, list, users, deals, budget }: PipedriveCompany,
  webhooks: StandInWebhooks,
): Hono {
  /** Changes a deal, and reports it. @returns whether anything changed. */
  function edit(deal: StandInDeal, values: Parameters<typeof deals.edit>[1]): boolean {
    const previous = deals.edit(deal, values)
    if (previous === undefined) return false
    webhooks.report('change', deal.data, previous)
    return true
  }

  return (
    new Hono()
      .get('/', (c) => c.redirect(list))
      // Only digits, because the id becomes a part of a header.
      .get('/deal/:id{[0-9]+}', (c) => c.redirect(`${list}#deal-${c.req.param('id')}`))
      .get('/deals', (c) =>
        dealsPage(c, {
          site,
          list,
          notice,
          currency,
          pipelines: standInPipelines,
          deals: deals
            .all()
            .reverse()
            .map(({ data }) => ({
              ...data,
              id: `${data.id}`,
              name: data.title,
              amount: data.value === 0 ? '' : `${data.value}`,
              stage: `${data.stage_id}`,
            })),
          underRow: ({ id, name, status, owner_id }) => html`
      <form method="post" action="${list}/${id}" class="actions state">
        <span class="muted">${statusNames[status]} · ${users.find((user) => user.id === owner_id)?.name}</span>
        ${
          status === 'open'
            ? html`${changeButton('won', 'Won', name)} ${changeButton('lost', 'Lost', name)}`
            : changeButton('open', 'Reopen', name)
        }
      </form>`,
          moreOf: ({ name }) => changeButton('delete', 'Delete', name),
          ofNew: html`<label>Owner
                  <select name="owner">${users.map(
                    ({ id, name }) => html`<option value="${id}">${name}</option>`,
                  )}</select>
                </label>
                <label><input type="checkbox" name="person"> with a person</label>
                <label><input type="checkbox" name="org"> with an organization</label>`,
          after: html`
            <section aria-labelledby="users">
              <h2 id="users">Dealbell in this company</h2>
              <ul class="users">${users.map((user) => userItem(user))}</ul>
              <form method="post" action="${list}/tokens" class="actions state">
                <span class="muted">The company has used ${budget.used.toLocaleString('en')} of ${dailyTokens.toLocaleString('en')} API tokens today.</span>
                <button name="change" value="use" class="secondary">Use up</button>
                <button name="change" value="renew" class="secondary">Begin a new day</button>
              </form>
            </section>`,
        }),
      )
      .post('/deals', notFromAnotherSite, async (c) => {
        const { name = '', amount, stage, owner, person, org } = await formFields(c)
        if (!isStage(stage)) return c.redirect(list, 303)
        const { data } = deals.add({
          title: cut(name, maxNameLength),
          value: isAmount(amount) ? asValue(amount) : 0,
          owner_id: (users.find(({ id }) => `${id}` === owner) ?? users[0]).id,
          person_id: person === undefined ? null : 301,
          org_id: org === undefined ? null : 501,
          stage_id: Number(stage),
        })
        webhooks.report('create', data, null)
        return c.redirect(`${list}#deal-${data.id}`, 303)
      })
      .post('/deals/tokens', notFromAnotherSite, async (c) => {
        const { change } = await formFields(c)
        if (change === 'use') budget.take(dailyTokens - budget.used)
        if (change === 'renew') budget.renew()
        return c.redirect(`${list}#users`, 303)
      })
      .post('/deals/:id{[0-9]+}', notFromAnotherSite, async (c) => {
        const id = c.req.param('id')
        const deal = deals.get(id)
        const { stage, amount, change } = await formFields(c)
        let query = ''
        if (deal !== undefined && change === 'stage' && isStage(stage)) {
          query = `?${edit(deal, { stage_id: Number(stage) }) ? 'moved' : 'same'}=${id}`
        }
        if (deal !== undefined && isStatus(change) && edit(deal, { status: change })) {
          query = `?moved=${id}`
        }
        if (deal !== undefined && change === 'amount' && isAmount(amount)) {
          edit(deal, { value: asValue(amount) })
          query = `?edited=${id}`
        }
        if (deal !== undefined && change === 'delete') {
          deals.delete(deal)
          webhooks.report('delete', deal.data, deal.data)
        }
        return c.redirect(`${list}${query}#deal-${id}`, 303)
      })
  )

  function userItem(user: StandInUser) {
    const [webhook, ...others] = webhooks.of(user)
    const isBanned = webhook !== undefined && webhook.bannedUntil > Date.now()
    const state =
      webhook === undefined
        ? 'no webhook'
        : `${others.length === 0 ? 'a webhook' : `${others.length + 1} webhooks`}${
            isBanned ? `, banned until ${new Date(webhook.bannedUntil).toISOString()}` : ''
          }`
    return html`
                <li>
                  <form method="post" class="actions state">
                    <input type="hidden" name="user" value="${user.id}">
                    <span>${user.name}: ${state}</span>
                    <button formaction="install" class="secondary" aria-label="Install from the Marketplace for ${user.name}">Install</button>
                    <button formaction="uninstall" class="secondary" aria-label="Uninstall for ${user.name}">Uninstall</button>
                  </form>
                </li>`
  }
}

const isStage = (id: string | undefined): id is string => pipelineOf(Number(id)) !== 0

/** Pipedrive has no deal without a value: it is 0. */
const asValue = (amount: string) => Number(amount) || 0
