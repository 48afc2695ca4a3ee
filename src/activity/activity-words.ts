import type { ActivityItem } from '../../contract/features/activity.ts'
import { type RuleCategory, ruleCatalogue } from '../../contract/rules.ts'
import { serverTime } from '../api/server-time.ts'
import { timeInWords } from '../ui/dates.ts'
import { ended } from '../ui/words.ts'

/** What a message is about. */
export function nameOf({ deal }: ActivityItem): string {
  if (deal === null) return 'Test message'
  return deal.name ?? (deal.id ? `Deal ${deal.id}` : 'Deal (name unknown)')
}

/** What became of a message, in words; of a sent one, what follows 'Sent to #sales'. */
export function sentenceOf({ state, reason: why, nextTryAt }: ActivityItem): string {
  switch (state) {
    case 'sent':
      return why ? `. ${ended(why)}` : ''
    case 'waiting': {
      const waiting = why ? `Waiting: ${ended(why)}` : 'Waiting to be sent'
      if (nextTryAt === null) return waiting
      return `${ended(waiting)} Next try ${timeInWords(nextTryAt, serverTime())}.`
    }
    case 'failed':
      return why ? `Not sent: ${ended(why)}` : 'Not sent'
    case 'skipped':
      return why ? `Skipped: ${ended(why)}` : 'Skipped'
  }
}

const rules = new Map<string, string>(
  ruleCatalogue.flatMap((category: RuleCategory) =>
    category.rules.map(({ id, when }) => [id, when]),
  ),
)

/** The rule's words, or its id if this dashboard does not know the rule. */
export function ruleInWords(id: string): string {
  const when = rules.get(id)
  return when === undefined ? `Rule ${id}` : `When ${when}`
}
