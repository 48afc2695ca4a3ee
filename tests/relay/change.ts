import type { CrmDeal, Stage } from '../../server/providers/deal.ts'
import type { Change } from '../../server/relay/decide/rules.ts'
import { stageFinder } from '../../server/relay/decide/stages.ts'

export const stages = {
  open: { id: 'a', label: 'Closed won', outcome: 'open' },
  next: { id: 'b', label: 'Proposal', outcome: 'open' },
  won: { id: '12345', label: 'Hurra', outcome: 'won' },
  lost: { id: '12346', label: 'Schade', outcome: 'lost' },
} satisfies Record<string, Stage>

const deal: CrmDeal = {
  id: '123',
  url: 'https://app.hubspot.com/contacts/456/record/0-3/123',
  name: 'Acme renewal',
  amount: '12500.5',
  currency: 'EUR',
  ownerId: null,
  linked: true,
  history: [],
}

/** A move of a deal between two stages. */
export function stageMove(
  from: Stage | null | undefined,
  to: Stage,
  { linked = true } = {},
): Change {
  return {
    property: 'stage',
    from: from ? from.id : (from as null | undefined),
    to: to.id,
    deal: { ...deal, linked },
    stage: stageFinder(new Map([from ?? to, to].map((stage) => [stage.id, stage]))),
  }
}
