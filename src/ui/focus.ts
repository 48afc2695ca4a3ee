import { type RefCallback, useCallback, useEffect, useRef } from 'react'

/** Focuses the screen's heading, so keyboard and screen reader continue there. */
export function focusHeading(): void {
  document.querySelector('h1')?.focus()
}

/** A ref of an element that may disappear while it or a part of it has the focus. Then the next element gets it. */
export const passFocus =
  (next: (own: HTMLElement) => HTMLElement | null | undefined): RefCallback<HTMLElement> =>
  (own) =>
  () => {
    if (own?.contains(document.activeElement)) next(own)?.focus()
  }

/** A ref of a button whose box takes the focus when the button disappears. */
export const passToBox = passFocus((own) => own.closest<HTMLElement>('[tabindex="-1"]'))

/**
 * A ref for a button that is disabled while busy. A disabled button loses the focus; this restores
 * it.
 */
export function useRestoredFocus(isBusy: boolean): RefCallback<HTMLButtonElement> {
  const button = useRef<HTMLButtonElement>(null)
  const hadFocus = useRef(false)
  useEffect(() => {
    if (isBusy) return
    if (hadFocus.current && document.activeElement === document.body) {
      // The bar is sticky, so the browser would scroll to its place in the page.
      button.current?.focus({ preventScroll: true })
    } else hadFocus.current = document.activeElement === button.current
  }, [isBusy])
  return useCallback((own: HTMLButtonElement) => {
    // Some browsers take the focus as soon as the button is disabled. So an effect would look too late.
    const look = ({ type }: FocusEvent) => {
      if (!own.disabled) hadFocus.current = type === 'focus'
    }
    button.current = own
    own.addEventListener('focus', look)
    own.addEventListener('blur', look)
    return () => {
      button.current = null
      own.removeEventListener('focus', look)
      own.removeEventListener('blur', look)
    }
  }, [])
}
