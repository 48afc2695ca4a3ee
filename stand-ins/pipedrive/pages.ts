import { Hono } from 'hono'
import { html } from 'hono/html'
import { changeButton, createDealsPage } from '../deals-page.ts'
import { formFields } from '../page.ts'
import {
  currency,
  dailyTokens,
  type PipedriveCompany,
  type StandInUser,
  standInPipelines,
} from './company.ts'
import type { StandInWebhooks } from './webhooks.ts'

const statuses = { won: 'Won', lost: 'Lost', open: 'Open' }

/** The page on which a person changes the stand-in's deals, and what its users have installed. */
export function createPipedrivePages(
  { site, list, users, deals, budget }: PipedriveCompany,
  webhooks: StandInWebhooks,
): Hono {
  const nameOf = (owner: number) => users.find(({ id }) => id === owner)?.name

  function edit(id: string, values: Parameters<typeof deals.edit>[1]): boolean {
    const deal = deals.get(id)
    const previous = deal && deals.edit(deal, values)
    if (deal === undefined || previous === undefined) return false
    webhooks.report('change', deal.data, previous)
    return true
  }

  const page = createDealsPage({
    site,
    account: 'a Pipedrive company',
    currency,
    pipelines: standInPipelines,
    deals: () =>
      deals.all().map(({ data }) => ({
        id: `${data.id}`,
        name: data.title,
        // Pipedrive has no deal without a value: it is 0.
        amount: `${data.value || ''}`,
        stage: `${data.stage_id}`,
        data,
      })),
    underRow: ({ id, name, data: { status, owner_id } }) => html`
      <form method="post" action="${list}/${id}" class="state">
        <span class="muted">${statuses[status]} · <bdi>${nameOf(owner_id)}</bdi></span>
        ${
          status === 'open'
            ? html`${changeButton('won', 'Won', name)} ${changeButton('lost', 'Lost', name)}`
            : changeButton('open', 'Reopen', name)
        }
      </form>`,
    moreOf: ({ name }) => changeButton('delete', 'Delete', name),
    fieldsOfNew: html`
                <label>Owner
                  <select name="owner">${users.map(
                    ({ id, name }) => html`<option value="${id}">${name}</option>`,
                  )}</select>
                </label>
                <label><input type="checkbox" name="person"> with a person</label>
                <label><input type="checkbox" name="org"> with an organization</label>`,
    after: () => html`
            <section aria-labelledby="users">
              <h2 id="users">Dealbell in this company</h2>
              ${users.map(userForm)}
              <form method="post" action="${list}/tokens" class="state">
                <span>API tokens of today: ${budget.used.toLocaleString('en')} of ${dailyTokens.toLocaleString('en')} used</span>
                <button name="change" value="use" class="secondary">Use up</button>
                <button name="change" value="renew" class="secondary">Renew</button>
              </form>
            </section>`,
    create({ name: title, amount, stage }, { owner, person, org }) {
      const { data } = deals.add({
        title,
        value: Number(amount) || 0,
        owner_id: (users.find(({ id }) => `${id}` === owner) ?? users[0]).id,
        person_id: person === undefined ? null : 301,
        org_id: org === undefined ? null : 501,
        stage_id: Number(stage),
      })
      webhooks.report('create', data, null)
      return `${data.id}`
    },
    enter: ({ id }, property, value) =>
      edit(id, { [property === 'stage' ? 'stage_id' : 'value']: Number(value) || 0 }),
    press({ id, data }, button) {
      if (button === 'delete') {
        deals.delete(id)
        webhooks.report('delete', data, data)
      }
      return (
        (button === 'won' || button === 'lost' || button === 'open') && edit(id, { status: button })
      )
    },
  })
  return (
    new Hono()
      .route('/', page)
      // Only digits, because the id becomes a part of a header.
      .get('/deal/:id{[0-9]+}', (c) => c.redirect(`${list}#deal-${c.req.param('id')}`))
      .post('/deals/tokens', async (c) => {
        const { change } = await formFields(c)
        budget.renew()
        if (change === 'use') budget.take(dailyTokens)
        return c.redirect(`${list}#users`, 303)
      })
  )

  function userForm(user: StandInUser) {
    const [webhook, ...others] = webhooks.of(user)
    const banned = webhooks.of(user).find(({ bannedUntil }) => bannedUntil > Date.now())
    const number = others.length === 0 ? 'one webhook' : `${others.length + 1} webhooks`
    const until = banned && new Date(banned.bannedUntil).toISOString().slice(11, 16)
    return html`
              <form method="post" class="state">
                <input type="hidden" name="user" value="${user.id}">
                <span>${user.name}: ${webhook ? number : 'no webhook'}${until && `, banned until ${until} UTC`}</span>
                <button formaction="install" class="secondary" aria-label="Install for ${user.name} from the Marketplace">Install</button>
                <button formaction="uninstall" class="secondary" aria-label="Uninstall for ${user.name}">Uninstall</button>
              </form>`
  }
}
