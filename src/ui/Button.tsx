import type { MouseEvent, ReactNode, Ref } from 'react'
import { buttonStyle } from './button-style.ts'

export function Button({
  kind = 'secondary',
  label,
  disabled = false,
  busy = false,
  onClick,
  type = 'button',
  ref,
  children,
}: {
  kind?: keyof typeof buttonStyle
  /** The accessible name, if the visible word alone is not clear. */
  label?: string
  disabled?: boolean
  /** Its action is in progress, so a click does nothing. Unlike a disabled button, a busy one keeps the focus. */
  busy?: boolean
  onClick?: (event: MouseEvent) => void
  type?: 'button' | 'submit'
  ref?: Ref<HTMLButtonElement>
  children: ReactNode
}) {
  return (
    <button
      ref={ref}
      type={type}
      aria-label={label}
      disabled={disabled}
      aria-disabled={busy || undefined}
      onClick={(event) => {
        if (busy) event.preventDefault()
        else onClick?.(event)
      }}
      // A held Enter clicks once: the button may already show another word when the key repeats.
      onKeyDown={(event) => event.repeat && event.key === 'Enter' && event.preventDefault()}
      className={buttonStyle[kind]}
    >
      {children}
    </button>
  )
}
