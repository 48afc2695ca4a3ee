const dayMs = 86_400_000

/**
 * The deals of a stand-in CRM before a person moves anything, so that the preview of each rule counts something. A start
 * repeats these moves for users who have long been connected. So they are older than the three days that the relay looks
 * back for missed changes.
 */
export function firstDeals(now: number) {
  return [
    firstDeal('Acme renewal', '12500', true, true, 3, 3.4),
    firstDeal('Globex pilot', '4800', true, false, 2, 3.8),
    firstDeal('Initech expansion', '73000.5', false, true, 4, 3.6),
    firstDeal('Umbrella onboarding', '', false, false, 2, 3.2),
  ]

  /** @returns a deal with the times at which it moved to the next stage. */
  function firstDeal(
    name: string,
    amount: string,
    contact: boolean,
    company: boolean,
    moves: number,
    lastMoveDaysAgo: number,
  ) {
    const daysAgo = (n: number) => lastMoveDaysAgo + (moves - 1 - n) * 0.7
    const movedAt = Array.from({ length: moves }, (_, n) => now - daysAgo(n) * dayMs)
    return { name, amount, contact, company, createdAt: now - 8 * dayMs, movedAt }
  }
}
