// Runs in the browser, on a channel's page of a stand-in chat. It shows times by the reader's clock, begins at the
// newest message, and reloads the page when the channels have changed.

for (const time of document.querySelectorAll('time')) {
  const date = new Date(time.dateTime)
  const isToday = date.toDateString() === new Date().toDateString()
  const isTime = time.dataset.shows === 'time'
  time.textContent = date.toLocaleString([], {
    ...(isTime && { timeStyle: 'short' }),
    ...(!(isTime && isToday) && { dateStyle: 'medium' }),
  })
}

const page = document.documentElement
const bottom = () => page.scrollHeight - innerHeight

// Somebody who reads older messages stays there: the state outlives a reload.
history.scrollRestoration = 'manual'
scrollTo(0, history.state?.scrollY ?? bottom())
history.replaceState(null, '')

const { version } = document.querySelector('[data-version]').dataset

async function hasChanged() {
  const answer = await fetch(location.href)
  return answer.ok && !(await answer.text()).includes(`data-version="${version}"`)
}

async function lookAgain() {
  // The server may be away for a while. Nobody looks at a hidden tab.
  if (!document.hidden && (await hasChanged().catch(() => false))) {
    history.replaceState(scrollY < bottom() - 50 ? { scrollY } : null, '')
    location.reload()
  }
  setTimeout(lookAgain, 2_000)
}
setTimeout(lookAgain, 2_000)
