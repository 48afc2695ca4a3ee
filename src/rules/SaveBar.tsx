import { useEffect } from 'react'
import { useConnectionStatus } from '../api/connections.ts'
import { useHasNotice } from '../api/person.ts'
import type { useSaveRules } from '../api/rules.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { useRestoredFocus } from '../ui/focus.ts'

/** Save, and what became of it. */
export function SaveBar({
  save,
  isUnsaved,
}: {
  save: ReturnType<typeof useSaveRules>
  isUnsaved: boolean
}) {
  const { crm, chat } = config
  const statuses = [useConnectionStatus(crm), useConnectionStatus(chat)]
  const canSave = statuses.every(({ data }) => data?.connected)
  const button = useRestoredFocus(save.isPending)
  // The person who clicked was another one.
  const wasNotSaved = useHasNotice('not saved')
  const wasRefused = save.error?.kind === 'unconnected'
  // A success was about connections that have ended. A refusal ends when both services are connected, so a later
  // disconnect does not show it again. Wait for both statuses. Otherwise their order would decide whether it ends.
  const isOver = canSave
    ? wasRefused && !statuses.some(({ isFetching }) => isFetching)
    : save.isSuccess
  const { reset } = save
  useEffect(() => {
    if (isOver) reset()
  }, [isOver, reset])

  const failure = wasRefused
    ? !canSave && `❌ Please connect both ${crm.name} and ${chat.name} before saving rules.`
    : (save.isError || (save.isIdle && wasNotSaved)) &&
      !save.isPending &&
      '❌ Failed to save rules, try again.'
  const isSaved = save.isSuccess && canSave
  // What the bar says stays in view. It is sticky, because most of the catalogue is between the available rules and this
  // bar. But it would cover the rules on a low or enlarged screen, so it is not sticky there.
  const isNeeded = isUnsaved || save.isPending || failure || isSaved
  return (
    <div className={`save-bar sm:col-span-full ${isNeeded ? 'tall:sticky' : ''}`}>
      {/* Without both connections, Connect is the next step. */}
      <Button
        kind={canSave && (isUnsaved || save.isPending) ? 'primary' : 'secondary'}
        type="submit"
        disabled={save.isPending}
        ref={button}
      >
        {save.isPending ? 'Saving…' : 'Save'}
      </Button>
      <p role="status" className="save-message">
        {failure ||
          (isUnsaved
            ? !save.isPending && <span className="text-muted">Unsaved changes</span>
            : isSaved && '✅ Rules saved successfully!')}
      </p>
    </div>
  )
}
