import address from '../late/late.css?url'

let loading: Promise<unknown> | undefined

/** Loads the styles of what loads late, once. Resolves when they apply. */
export function loadLateStyles(): Promise<unknown> {
  loading ??= new Promise((resolve) => {
    // The build's link contains the integrity. In development there is none.
    const link =
      document.querySelector<HTMLLinkElement>('link[as=style]') ?? document.createElement('link')
    // If they fail to load, which the browser logs, what waits for them is shown without them.
    link.onload = link.onerror = resolve
    link.href = address
    // After the other sheet, whose rules it repeats.
    document.head.append(link)
    link.rel = 'stylesheet'
  })
  return loading
}
