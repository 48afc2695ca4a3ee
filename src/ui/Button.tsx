import type { ComponentProps } from 'react'
import { buttonStyle } from './button-style.ts'

export function Button({
  kind = 'secondary',
  label,
  busy = false,
  onClick,
  ...props
}: ComponentProps<'button'> & {
  kind?: keyof typeof buttonStyle
  /** The accessible name, if the visible word alone is not clear. */
  label?: string
  /** Its action is in progress, so a click does nothing. Unlike a disabled button, a busy one keeps the focus. */
  busy?: boolean
}) {
  return (
    <button
      type="button"
      aria-label={label}
      aria-disabled={busy || undefined}
      onClick={(event) => {
        if (busy) event.preventDefault()
        else onClick?.(event)
      }}
      // A held Enter clicks once: the button may already show another word when the key repeats.
      onKeyDown={(event) => event.repeat && event.key === 'Enter' && event.preventDefault()}
      className={buttonStyle[kind]}
      {...props}
    />
  )
}
