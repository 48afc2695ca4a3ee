import type { useActivity } from '../api/activity.ts'
import { serverTime } from '../api/server-time.ts'
import { Button } from '../ui/Button.tsx'
import { dayName } from '../ui/dates.ts'
import { passToBox } from '../ui/focus.ts'
import { ended } from '../ui/words.ts'

/** Below the list: a button that loads the next page, or that there is none. */
export function OlderMessages({ pages }: { pages: ReturnType<typeof useActivity>['pages'] }) {
  const loaded = pages.data?.pages ?? []
  const { next = null, searchedTo } = loaded.at(-1) ?? {}
  const isEmpty = loaded.every(({ items }) => items.length === 0)
  if (isEmpty && next === null) return null
  const searched = searchedTo == null ? undefined : dayName(searchedTo, serverTime())
  return (
    // It takes the focus when the button disappears.
    <div tabIndex={-1} className="flex flex-wrap items-center gap-3 text-sm outline-none">
      {next === null ? (
        <p className="text-muted">There are no older messages.</p>
      ) : (
        <Button
          ref={passToBox}
          busy={pages.isFetchingNextPage || pages.isPlaceholderData}
          onClick={() => void pages.fetchNextPage({ cancelRefetch: false })}
        >
          {pages.isFetchingNextPage ? 'Loading…' : searched ? 'Search older' : 'Load older'}
        </Button>
      )}
      {searched && (
        <p className="text-muted">
          {`${isEmpty ? 'No message found yet. ' : ''}Searched back to ${searched}.`}
        </p>
      )}
      <p role="status">
        {pages.isFetchNextPageError &&
          `❌ Failed to load older messages. ${ended(pages.error.message)}`}
      </p>
    </div>
  )
}
