/** What a hostile form tries. It reports the outcome of each attempt in its own page. */
export const hostileForm = `<!doctype html><title>Form</title>
<button>Send</button><pre></pre>
<a id="top-link" target="_top" href="/taken">x</a>
<a id="new-link" target="_blank" href="/taken">x</a>
<a id="download" download="x.txt" href="data:text/plain,x">x</a>
<form id="top-form" target="_top" action="/taken"></form>
<script>
const outcomes = {}
const report = (name, outcome) => {
  outcomes[name] = outcome
  document.querySelector('pre').textContent = JSON.stringify(outcomes)
}
const attempt = (name, act) => {
  try { report(name, String(act())) } catch (error) { report(name, error.name) }
}
const later = (name, promise) =>
  promise.then((value) => report(name, String(value)), (error) => report(name, error.name))
addEventListener('beforeunload', (event) => { event.preventDefault(); event.returnValue = 'Stay!' })
document.querySelector('button').onclick = () => {
  attempt('top.location', () => { top.location = location.origin + '/taken' })
  attempt('top.replace', () => top.location.replace(location.origin + '/taken'))
  attempt('parent.document', () => parent.document.title)
  attempt('open _top', () => open('/taken', '_top'))
  attempt('open', () => open('/taken'))
  attempt('alert', () => alert('Your session has ended'))
  attempt('confirm', () => confirm('Your password?'))
  attempt('prompt', () => prompt('Your password?'))
  for (const id of ['top-link', 'new-link', 'download']) attempt(id, () => document.getElementById(id).click())
  attempt('top-form', () => document.getElementById('top-form').submit())
  later('camera', navigator.mediaDevices.getUserMedia({ video: true }))
  later('microphone', navigator.mediaDevices.getUserMedia({ audio: true }))
  later('position', new Promise((resolve) =>
    navigator.geolocation.getCurrentPosition(() => resolve('allowed'), (error) => resolve(error.code))))
  later('notification', Notification.requestPermission())
  later('clipboard', navigator.clipboard.readText())
  later('fullscreen', document.body.requestFullscreen())
  later('calls', fetch(document.referrer || DASHBOARD + '/health', { credentials: 'include' }))
  parent.postMessage({ type: 'navigate', href: location.origin + '/taken' }, '*')
}
</script>`
