import { type FormEvent, useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { ruleCatalogue } from '../../../../contract/rules.ts'

// What React alone costs: the same page without router, Query and ky.
async function ask(path: string) {
  const response = await fetch(path, { credentials: 'include' })
  if (!response.ok) throw new Error(`${path} answered ${response.status}`)
  return response.json()
}

function Connection({ name, id, initially }: { name: string; id: string; initially: boolean }) {
  const [isConnected, setConnected] = useState(initially)
  async function onClick() {
    if (!isConnected) return window.location.assign(`/api/${id}/auth`)
    await fetch(`/api/${id}/disconnect`, { method: 'DELETE', credentials: 'include' })
    setConnected(false)
  }
  return (
    <li>
      <span>
        {isConnected ? '✓' : '✗'} {name}: {isConnected ? 'Connected' : 'Not connected'}
      </span>
      <button type="button" onClick={onClick}>
        {isConnected ? 'Disconnect' : 'Connect'}
      </button>
    </li>
  )
}

function RuleForm({ initially }: { initially: string[] }) {
  const [selected, setSelected] = useState(initially)
  const [message, setMessage] = useState('')
  async function onSubmit(event: FormEvent) {
    event.preventDefault()
    const answer = await fetch('/api/notifications/rules', {
      method: 'POST',
      credentials: 'include',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ rules: selected }),
    })
    setMessage(answer.ok ? '✅ Rules saved successfully!' : '❌ Failed to save rules.')
  }
  return (
    <form onSubmit={onSubmit}>
      {ruleCatalogue.map((category) => (
        <fieldset key={category.name} disabled={!category.available}>
          <legend>{category.name}</legend>
          {category.rules.map(({ id, when }) => (
            <label key={id}>
              <input
                type="checkbox"
                checked={selected.includes(id)}
                onChange={({ target }) =>
                  setSelected(
                    target.checked ? [...selected, id] : selected.filter((other) => other !== id),
                  )
                }
              />
              Notify me when {when}
            </label>
          ))}
        </fieldset>
      ))}
      <button type="submit">Save</button>
      <p role="status">{message}</p>
    </form>
  )
}

interface Answers {
  crm: boolean
  chat: boolean
  rules: string[]
}

function App() {
  const [answers, setAnswers] = useState<Answers>()
  useEffect(() => {
    Promise.all([
      ask('/health'),
      ask('/api/hubspot/status'),
      ask('/api/slack/status'),
      ask('/api/notifications/rules'),
    ]).then(([, crm, chat, { rules }]) =>
      setAnswers({ crm: crm.connected, chat: chat.connected, rules }),
    )
  }, [])
  return (
    <>
      <header>Dealbell</header>
      <main>
        {answers === undefined ? (
          <p role="status">Loading…</p>
        ) : (
          <>
            <h1>Deal notifications</h1>
            <section>
              <h2>Connections</h2>
              <ul>
                <Connection name="HubSpot" id="hubspot" initially={answers.crm} />
                <Connection name="Slack" id="slack" initially={answers.chat} />
              </ul>
            </section>
            <section>
              <h2>Notification Rules</h2>
              <RuleForm initially={answers.rules} />
            </section>
          </>
        )}
      </main>
      <footer>
        Need Help?{' '}
        <a href="/contact" target="_blank" rel="noopener">
          Contact Support
        </a>
      </footer>
    </>
  )
}

const root = document.getElementById('root')
if (root) createRoot(root).render(<App />)
