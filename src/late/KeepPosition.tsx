import { Component, createRef, type ReactNode } from 'react'

interface Place {
  /** What the user reads, and where it was in the window, in pixels. */
  anchor: Element | undefined
  top: number
  focused: Element | null
  /** What gets the focus if the focused element disappears. */
  around: HTMLElement | null
}

/**
 * Keeps what the user reads where it is when a change of its children moves the list, and keeps the
 * focus near its place when the focused control disappears: in its message, or else at the heading of the
 * section. At the top of the page, new messages appear
 * in sight.
 *
 * It is a class because only `getSnapshotBeforeUpdate` can measure right before a change. The browser's
 * own scroll anchoring is not enough, because WebKit has none (src/styles.css).
 */
export class KeepPosition extends Component<{ children: ReactNode }> {
  readonly #root = createRef<HTMLDivElement>()

  override getSnapshotBeforeUpdate(): Place {
    const { activeElement } = document
    const focused = this.#root.current?.contains(activeElement) === true ? activeElement : null
    const messages = [...document.querySelectorAll('main ol > li')]
    const isSeen = (message: Element) => {
      const { top, bottom } = message.getBoundingClientRect()
      return bottom > 0 && top < window.innerHeight
    }
    const own = messages.find((message) => message.contains(activeElement) && isSeen(message))
    const first = window.scrollY > 0 ? (messages.find(isSeen) ?? messages.at(-1)) : undefined
    const anchor = own ?? first
    return {
      anchor,
      top: anchor?.getBoundingClientRect().top ?? 0,
      focused,
      around: focused?.closest<HTMLElement>('[tabindex="-1"]') ?? null,
    }
  }

  override componentDidUpdate(_props: unknown, _state: unknown, place: Place) {
    const { anchor, top, focused, around } = place
    if (focused?.isConnected === false) {
      if (around?.isConnected) around.focus({ preventScroll: true })
      // The whole message is gone, as when the list starts again.
      else this.#heading?.focus({ preventScroll: anchor?.isConnected === true })
    }
    if (anchor?.isConnected) {
      window.scrollBy({ top: anchor.getBoundingClientRect().top - top, behavior: 'instant' })
    }
  }

  get #heading() {
    return this.#root.current?.closest('section')?.querySelector('h2')
  }

  override render() {
    return (
      <div ref={this.#root} tabIndex={-1} className="relative flex flex-col gap-4 outline-none">
        {this.props.children}
      </div>
    )
  }
}
