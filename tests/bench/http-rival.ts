import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { getCookie } from 'hono/cookie'
import pg from 'pg'
import { openFolder } from '../../server/database/pglite-folder.ts'
import { sha256 } from '../../server/people/session.ts'

// Bare Hono with one query for each call: what http.ts compares the server with. It checks nothing but the session,
// counts no calls, knows no replaced tokens, and sets no headers.

type Query = (text: string, values: unknown[]) => Promise<{ rows: unknown[] }>
const query = await openDatabase()

async function openDatabase(): Promise<Query> {
  const { DATABASE_URL, DATA_DIR = '' } = process.env
  if (DATABASE_URL !== undefined) {
    // As many connections as the server has.
    const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 10 })
    return (text, values) => pool.query(text, values)
  }
  const client = await openFolder(`${DATA_DIR}/pglite`, true)
  return (text, values) => client.query(text, values)
}

const own = '(select user_id from sessions where token_hash = $1 and expires_at > now())'
const tokenHash = (cookie = '') => sha256(cookie)

const app = new Hono()
  .get('/api/:provider/status', async (c) => {
    const { rows } = await query(
      `select account_name as account, channel_name as channel from connections
       where user_id = ${own} and provider = $2 and broken_since is null`,
      [tokenHash(getCookie(c, '__Host-dealbell')), c.req.param('provider')],
    )
    return c.json({ connected: rows.length > 0, ...Object(rows[0]) })
  })
  .get('/api/notifications/rules', async (c) => {
    const { rows } = await query(`select rule_ids as rules from rules where user_id = ${own}`, [
      tokenHash(getCookie(c, '__Host-dealbell')),
    ])
    return c.json(rows[0] ?? { rules: [] })
  })
  .post('/api/notifications/rules', async (c) => {
    const { rules } = await c.req.json()
    await query(
      `insert into rules (user_id, rule_ids, saved_at) values (${own}, $2, now())
       on conflict (user_id) do update set rule_ids = excluded.rule_ids, saved_at = now()`,
      [tokenHash(getCookie(c, '__Host-dealbell')), JSON.stringify(rules)],
    )
    return c.body(null, 204)
  })
  .get('/api/notifications/activity', async (c) => {
    const { rows } = await query(
      `select d.id::text, d.state, d.attempts as tries, d.rule_id as rule, d.deal_name, d.deal_url,
              d.from_label, d.to_label, d.reason, d.channel, d.occurred_at as at,
              (select deal_id from deal_events where id = d.event_id) as deal_id
       from deliveries as d where d.user_id = ${own} order by d.occurred_at desc, d.id desc limit $2`,
      [tokenHash(getCookie(c, '__Host-dealbell')), Number(c.req.query('limit'))],
    )
    return c.json({ items: rows, next: null })
  })

serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`listens on http://127.0.0.1:${port}`)
})
