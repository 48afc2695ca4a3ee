import { memo } from 'react'

/**
 * One rule of the catalogue. Memoized, so a tick renders only its own row. `onToggle` must stay the
 * same function between renders.
 */
export const RuleCheckbox = memo(function RuleCheckbox({
  id,
  when,
  checked,
  available,
  onToggle,
}: {
  id: string
  when: string
  checked: boolean
  available: boolean
  onToggle: (id: string) => void
}) {
  return (
    <label
      className={`rule ${available ? 'cursor-pointer hover:bg-canvas' : 'text-muted forced-colors:text-[GrayText]'}`}
    >
      <input
        type="checkbox"
        checked={checked}
        disabled={!available}
        onChange={() => onToggle(id)}
        className="mt-0.5 size-4 shrink-0 accent-accent"
      />
      <span className="min-w-0">Notify me when {when}</span>
    </label>
  )
})
