// Runs in the browser, on the page of a stand-in CRM's deals. The answer to a form shows its deal where it was in the
// window. The fragment of the address alone would scroll the deal to the top.

const key = 'top of the deal'

addEventListener('submit', ({ target }) => {
  const deal = target.closest('li')
  if (deal !== null) sessionStorage.setItem(key, deal.getBoundingClientRect().top)
})

const top = sessionStorage.getItem(key)
const deal = document.getElementById(location.hash.slice(1))
sessionStorage.removeItem(key)
if (top !== null && deal !== null) {
  deal.style.scrollMarginTop = `${top}px`
  deal.scrollIntoView()
}
