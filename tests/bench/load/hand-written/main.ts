import { ruleCatalogue } from '../../../../contract/rules.ts'

// What a person writes who has one page to write and no library: four calls, and the DOM by hand.
async function ask(path: string) {
  const response = await fetch(path, { credentials: 'include' })
  if (!response.ok) throw new Error(`${path} answered ${response.status}`)
  return response.json()
}

function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name)
  made.append(...children)
  return made
}

function connection(name: string, id: string, connected: boolean): HTMLElement {
  let isConnected = connected
  const state = element('span')
  const button = element('button')
  function show() {
    state.textContent = `${isConnected ? '✓' : '✗'} ${name}: ${isConnected ? 'Connected' : 'Not connected'}`
    button.textContent = isConnected ? 'Disconnect' : 'Connect'
  }
  button.onclick = async () => {
    if (!isConnected) return window.location.assign(`/api/${id}/auth`)
    await fetch(`/api/${id}/disconnect`, { method: 'DELETE', credentials: 'include' })
    isConnected = false
    show()
  }
  show()
  return element('li', state, button)
}

function ruleForm(rules: string[]): HTMLElement {
  const selected = new Set(rules)
  const form = element('form')
  for (const category of ruleCatalogue) {
    const fieldset = element('fieldset', element('legend', category.name))
    fieldset.disabled = !category.available
    for (const { id, when } of category.rules) {
      const box = element('input')
      box.type = 'checkbox'
      box.checked = selected.has(id)
      box.onchange = () => (box.checked ? selected.add(id) : selected.delete(id))
      fieldset.append(element('label', box, `Notify me when ${when}`))
    }
    form.append(fieldset)
  }
  const save = element('button', 'Save')
  save.type = 'submit'
  const message = element('p')
  form.append(save, message)
  form.onsubmit = async (event) => {
    event.preventDefault()
    const answer = await fetch('/api/notifications/rules', {
      method: 'POST',
      credentials: 'include',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ rules: [...selected] }),
    })
    message.textContent = answer.ok ? '✅ Rules saved successfully!' : '❌ Failed to save rules.'
  }
  return form
}

const [, crm, chat, { rules }] = await Promise.all([
  ask('/health'),
  ask('/api/hubspot/status'),
  ask('/api/slack/status'),
  ask('/api/notifications/rules'),
])
document
  .querySelector('main')
  ?.replaceChildren(
    element('h1', 'Deal notifications'),
    element(
      'section',
      element('h2', 'Connections'),
      element(
        'ul',
        connection('HubSpot', 'hubspot', crm.connected),
        connection('Slack', 'slack', chat.connected),
      ),
    ),
    element('section', element('h2', 'Notification Rules'), ruleForm(rules)),
  )
