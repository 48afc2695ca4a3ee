import { useQueryClient } from '@tanstack/react-query'
import { useBlocker } from '@tanstack/react-router'
import { type FormEvent, Fragment } from 'react'
import { type RuleCategory, ruleCatalogue } from '../../contract/rules.ts'
import { useIsConnected } from '../api/connections.ts'
import { currentDraft, isDraftKept } from '../api/draft.ts'
import { useHasFeature } from '../api/health.ts'
import { dropNotice } from '../api/person.ts'
import {
  isAllBeingSaved,
  isSaving,
  useRuleSelection,
  useRules,
  useSaveRules,
} from '../api/rules.ts'
import { config } from '../config.ts'
import { Badge } from '../ui/Badge.tsx'
import { Warning } from '../ui/Warning.tsx'
import { RuleCheckbox } from './RuleCheckbox.tsx'
import { SaveBar } from './SaveBar.tsx'

const catalogue: readonly RuleCategory[] = ruleCatalogue

/** The rule catalogue as checkboxes, and Save. */
export function RuleSettings() {
  const save = useSaveRules()
  const rules = useRules()
  // Whether it is known what the saved rules have sent, and what the others would have sent.
  const hasSummary = useHasFeature('activity')
  const canPreview = useHasFeature('preview')
  const hasPreview = useIsConnected(config.crm) && canPreview
  const { selected, changes, isUnsaved, toggle, discard } = useRuleSelection()

  const queryClient = useQueryClient()
  useBlocker({
    disabled: !isUnsaved,
    // Ticks that are kept are not lost. Those of another person have gone since the last render.
    enableBeforeUnload: () => !isDraftKept() && Object.keys(currentDraft()).length > 0,
    shouldBlockFn: ({ current, next }) => {
      if (current.pathname === next.pathname) return false
      // The save goes on. If it fails, the ticks are still there when the user comes back.
      if (isAllBeingSaved(queryClient)) return false
      const leave = window.confirm('Leave without saving? The rules you changed are not saved yet.')
      if (leave) discard()
      return !leave
    },
  })

  function onToggle(id: string) {
    toggle(id)
    // A message disappears when the selection changes.
    if (!isSaving(queryClient)) save.reset()
    dropNotice('not saved')
  }

  function onSubmit(event: FormEvent) {
    event.preventDefault()
    dropNotice('not saved')
    save.mutate(changes)
  }

  // Do not use isPending: rules that failed to load are pending again at each new attempt.
  const areLoaded = rules.isFetched
  const saved = rules.data?.rules
  return (
    <form onSubmit={onSubmit} className="grid gap-x-4 gap-y-6 sm:grid-cols-2 md:grid-cols-4">
      {!areLoaded && (
        <p role="status" className="loading-rules col-span-full">
          Loading rules…
        </p>
      )}
      {catalogue.map((category) => (
        <Fragment key={category.name}>
          {areLoaded && (
            <fieldset className={`min-w-0 ${category.available ? 'sm:col-span-full' : ''}`}>
              <legend className="mb-1 flex max-w-full flex-wrap items-center gap-2 text-sm font-semibold">
                <span>{`${category.name} `}</span>
                {!category.available && <Badge>Coming soon</Badge>}
              </legend>
              {category.rules.map((rule) => (
                <RuleCheckbox
                  key={rule.id}
                  rule={rule}
                  checked={selected.includes(rule.id)}
                  available={category.available}
                  hasNote={
                    category.available && (saved?.includes(rule.id) ? hasSummary : hasPreview)
                  }
                  onToggle={() => onToggle(rule.id)}
                />
              ))}
            </fieldset>
          )}
          {/* Below the rules. Above them, it would move the rules while the user clicks. It is there
              before the rules, so that it is announced. */}
          {category.available && (
            <Warning
              isShown={areLoaded && selected.length === 0}
              isQuiet
              title="No notification rules defined"
            >
              You will receive no notifications until you select at least one rule, for example when
              a deal stage changes or when a deal is closed (won/lost).
            </Warning>
          )}
        </Fragment>
      ))}
      {areLoaded && <SaveBar save={save} isUnsaved={isUnsaved} />}
    </form>
  )
}
