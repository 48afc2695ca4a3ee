import { oneLine } from '../../providers/foreign-text.ts'
import type { Change } from '../decide/rules.ts'
import type { Shown } from '../pick/delivery.ts'
import type { MessageEntry } from './message.ts'
import { longestLabel, longestName } from './text.ts'

/** What the user's list of messages shows of a change that has a message. */
export function shownOfEntry({ deal, headline, ruleId }: MessageEntry): Shown {
  return {
    ruleId,
    ...shownOfDeal(deal),
    from: shownText(headline.from, longestLabel),
    to: shownText(headline.to, longestLabel),
  }
}

/** What it shows of a change without a message. */
export function shownOfChange(change: Change): Shown {
  return { ...shownOfValue({ ...change, value: change.to }), ...shownOfDeal(change.deal) }
}

/** What it shows of a change of which no deal was read: a stage's label, or nothing. */
export function shownOfValue({
  property,
  value,
  stage,
}: Pick<Change, 'property' | 'stage'> & { value: string }): Shown {
  return property === 'stage' ? { to: shownText(stage(value).label, longestLabel) } : {}
}

function shownOfDeal({ name, url }: { name: string | null; url: string }): Shown {
  return { dealName: shownText(name, longestName), dealUrl: url }
}

function shownText(text: string | null | undefined, maxLength: number): string | undefined {
  return (text && oneLine(text, maxLength)) || undefined
}
