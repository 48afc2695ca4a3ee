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
  /** The accessible name, where the visible word alone does not say what it is about. */
  label?: string
  disabled?: boolean
  /** What it was pressed for is under way; it keeps the focus, unlike a disabled one. */
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
      onClick={onClick}
      // An Enter that is held presses once: at its repeats the button may say something else.
      onKeyDown={(event) => event.repeat && event.key === 'Enter' && event.preventDefault()}
      className={buttonStyle[kind]}
    >
      {children}
    </button>
  )
}
