import { type ComponentType, memo } from 'react'

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
  Note,
}: {
  id: string
  when: string
  checked: boolean
  available: boolean
  onToggle: (id: string) => void
  /** Renders a note below the label, whose element `id` describes the checkbox. It has its place before it is there. */
  Note?: ComponentType<{ id: string; rule: string; when: string }> | undefined
}) {
  const noteId = `${id}-note`
  return (
    <div className={available ? 'rule-row' : ''}>
      <label className={available ? 'rule' : 'rule-later'}>
        <input
          type="checkbox"
          checked={checked}
          disabled={!available}
          onChange={() => onToggle(id)}
          aria-describedby={Note && noteId}
          className="mt-0.5 size-4 shrink-0 accent-accent"
        />
        <span className="min-w-0">{`Notify me when ${when}`}</span>
      </label>
      {Note && (
        <div className="rule-note">
          <Note id={noteId} rule={id} when={when} />
        </div>
      )}
    </div>
  )
})
