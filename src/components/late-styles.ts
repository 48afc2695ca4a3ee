import address from '../late/late.css?url'

let loading: Promise<void> | undefined

/**
 * Loads the styles of what loads late, once. Resolves when they apply, or when they failed to load: what waits for
 * them is then shown without them.
 */
export function loadLateStyles(): Promise<void> {
  loading ??= new Promise((resolve) => {
    // The build's link contains the integrity. In development there is none.
    const link =
      document.querySelector<HTMLLinkElement>('link[as=style]') ?? document.createElement('link')
    link.onload = () => resolve()
    link.onerror = () => {
      console.error('Loading the late styles failed')
      resolve()
    }
    link.href = address
    // After the other sheet, whose rules it repeats in their order.
    document.head.append(link)
    link.rel = 'stylesheet'
  })
  return loading
}
