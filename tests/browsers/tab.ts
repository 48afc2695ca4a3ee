export type Engine = 'chromium' | 'firefox' | 'webkit'

/** What the tests need of a browser. Everything else is in page.ts, the same for every browser. */
export interface Tab {
  /** Opens an address. Resolves after the page has loaded, as does `reload`. */
  open(url: string): Promise<void>
  reload(): Promise<void>
  /** Runs the body of a function in the page, and returns what it returns. */
  run(body: string): Promise<unknown>
  /** Clicks with the mouse, at a point of the window in CSS pixels. */
  click(point: { x: number; y: number }): Promise<void>
  close(): Promise<void>
}

/** A running browser. */
export interface Browser {
  /** Opens a tab with no cookies and an empty cache. */
  newTab(): Promise<Tab>
  close(): Promise<void>
}

/** The actions of a click, as both kinds of WebDriver take them. */
export function mouseClick({ x, y }: { x: number; y: number }) {
  const actions = [
    { type: 'pointerMove', x: Math.round(x), y: Math.round(y) },
    { type: 'pointerDown', button: 0 },
    { type: 'pointerUp', button: 0 },
  ]
  return { type: 'pointer', id: 'mouse', parameters: { pointerType: 'mouse' }, actions }
}
