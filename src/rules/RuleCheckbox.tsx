import type { Rule } from '../../contract/rules.ts'
import { Boundary } from '../ui/Boundary.tsx'
import { RuleNote } from './RuleNote.tsx'

// The label covers the row, so that a click beside or below its text ticks too.
const usable =
  'flex min-h-9 cursor-pointer items-start gap-3 py-2 text-sm after:absolute after:inset-0 after:rounded-lg pointer-coarse:min-h-11 pointer-coarse:py-3'
const comingSoon =
  'flex items-start gap-1.5 py-0.5 text-xs/4 text-muted forced-colors:text-[GrayText] [&>input]:mt-0.5 [&>input]:size-3'

/** One rule of the catalogue. */
export function RuleCheckbox({
  rule: { id, when },
  checked,
  available,
  onToggle,
  hasNote,
}: {
  rule: Rule
  checked: boolean
  available: boolean
  onToggle: () => void
  /** Whether a note below the label describes the checkbox. It has its place before it is there. */
  hasNote: boolean
}) {
  const noteId = `${id}-note`
  return (
    <div className={available ? 'relative -mx-2 rounded-lg px-2 hover:bg-canvas' : ''}>
      <label className={available ? usable : comingSoon}>
        <input
          type="checkbox"
          checked={checked}
          disabled={!available}
          onChange={onToggle}
          aria-describedby={hasNote ? noteId : undefined}
          className="relative z-1 mt-0.5 size-4 shrink-0 accent-accent"
        />
        <span className="min-w-0 wrap-anywhere">{`Notify me when ${when}`}</span>
      </label>
      {hasNote && (
        <div className="-mt-1 ml-7 min-h-12 pb-1 text-xs leading-5 text-muted sm:min-h-7 sm:text-sm/5">
          <Boundary>
            <RuleNote id={noteId} rule={id} when={when} />
          </Boundary>
        </div>
      )}
    </div>
  )
}
