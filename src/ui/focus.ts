import { type RefCallback, type RefObject, useEffect, useRef } from 'react'

/** Moves the focus, so that keyboard and screen reader continue there. What the reader sees stays where it is. */
export const focusInPlace = (element: HTMLElement | null | undefined): void =>
  element?.focus({ preventScroll: true })

/** Focuses the screen's heading. After a navigation, the router scrolls to the top. */
export const focusHeading = (): void => focusInPlace(document.querySelector('h1'))

/** A ref of an element that may disappear while it or a part of it has the focus. Then the next element gets it. */
export const passFocus =
  (next: (own: HTMLElement) => HTMLElement | null | undefined): RefCallback<HTMLElement> =>
  (own) =>
  () => {
    if (own?.contains(document.activeElement)) focusInPlace(next(own))
  }

/** A ref of a button whose box takes the focus when the button disappears. */
export const passToBox = passFocus((own) => own.closest<HTMLElement>('[tabindex="-1"]'))

/** A ref of what gives its focus to the screen's heading. */
export const passToHeading = passFocus(() => document.querySelector('h1'))

/** A ref for a button that is disabled while busy, and so loses the focus. It gets the focus back. */
export function useRestoredFocus(isBusy: boolean): RefObject<HTMLButtonElement | null> {
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (!isBusy) return
    return () => {
      if (document.activeElement === document.body) focusInPlace(button.current)
    }
  }, [isBusy])
  return button
}
