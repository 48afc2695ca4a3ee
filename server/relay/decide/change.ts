// `decide/` gets a delivery. With its stage and the rules that may apply, it is a candidate. With its deal, the candidate
// is a change. This file has all the relay's reads of the CRM. The owner is read only after the decision, because only a
// message about a single change says the name. A read serves all users and all tries. Then rules.ts decides, and calls
// nothing.

import type { CrmConnection, WithAccess } from '../../people/access-token.ts'
import type { CrmOwner } from '../../providers/deal.ts'
import type { Crm, Providers, Urgency } from '../../providers/provider.ts'
import { ProviderError } from '../../providers/provider-error.ts'
import { crmIds, eachOf } from '../../providers/registry.ts'
import type { DealDelivery } from '../pick/delivery.ts'
import type { RelayTimes } from '../times.ts'
import { createDealReader, type Wanted } from './deals.ts'
import { formerValue } from './former-value.ts'
import { createOwnerCache } from './owners.ts'
import { type Change, mayNeedLinks, needsLinks, possibleRules, type RuleEntry } from './rules.ts'
import { createStageCache, stageFinder } from './stages.ts'

/** A delivery of which only the stage is known yet, and of which the deal must be read if a rule may apply. */
export interface Candidate {
  delivery: DealDelivery
  possible: readonly RuleEntry[]
  stage: Change['stage']
}

/** Whose connection reads, and how urgent it is. */
export interface ReadBy {
  crm: CrmConnection
  urgency: Urgency
}

export type ChangeReader = ReturnType<typeof createChangeReader>

/** Creates the functions that read changes. They throw ProviderError. */
export function createChangeReader(
  providers: Providers,
  withAccess: WithAccess,
  { lookAgainMs }: Pick<RelayTimes, 'lookAgainMs'>,
) {
  const ofCrm = eachOf(crmIds, (id) => createReaders(providers[id], withAccess))

  async function stagesWith(ids: readonly string[], by: ReadBy): Promise<Change['stage']> {
    const { stagesOf } = ofCrm[by.crm.provider]
    return stageFinder(await withAccess(by.crm, by.urgency, (access) => stagesOf(access, ids)))
  }

  /** When to look at a deal again that has no contact and no company yet, on the clock of `performance.now()`. */
  const lookAgainAt = ({ receivedAtMs }: DealDelivery) => receivedAtMs + lookAgainMs

  function wantedOf({ delivery }: Candidate, atMs: number): Wanted {
    const { dealId, receivedAtMs } = delivery
    const againAtMs = lookAgainAt(delivery)
    const noLinksAfterMs = atMs < againAtMs ? receivedAtMs : againAtMs
    return { dealId, readAfterMs: receivedAtMs, noLinksAfterMs }
  }

  return {
    lookAgainAt,

    async candidatesOf(deliveries: readonly DealDelivery[], by: ReadBy): Promise<Candidate[]> {
      const [first] = deliveries
      if (first === undefined) return []
      const ticked = new Set(first.ruleIds)
      const stageIds = deliveries.flatMap(({ property, value }) =>
        property === 'stage' ? [value] : [],
      )
      const stage = await stagesWith([...new Set(stageIds)], by)
      return deliveries.map((delivery) => {
        const { property, value: to } = delivery
        const possible = possibleRules({ property, from: formerOf(delivery), to, stage }, ticked)
        return { delivery, possible, stage }
      })
    },

    /**
     * Reads all that the decision about the first candidate needs. The same calls read the deals of those after it.
     * @param atMs the time of the decision, on the clock of `performance.now()`.
     * @returns undefined if there is no such deal.
     */
    async changeOf(
      [first, ...others]: readonly [Candidate, ...Candidate[]],
      by: ReadBy,
      atMs: number,
    ): Promise<Change | undefined> {
      const { delivery, possible, stage } = first
      const { property, value } = delivery
      const { reader } = ofCrm[by.crm.provider]
      const history = historyFor(delivery)
      const alike = others.filter(
        (other) => other.delivery.property === property && historyFor(other.delivery) === history,
      )
      const wanted = wantedOf(first, atMs)
      const deal = await reader.deal(
        by.crm,
        [wanted, ...alike.map((other) => wantedOf(other, atMs))],
        history,
        { withLinks: mayNeedLinks(possible), urgency: by.urgency },
      )
      if (deal === undefined) return undefined

      const from =
        delivery.former === null ? formerValue(deal.history, delivery) : formerOf(delivery)
      const change: Change = {
        property,
        from,
        to: value,
        deal: { ...deal, linked: undefined },
        stage: property === 'stage' && from ? await stagesWith([value, from], by) : stage,
      }
      if (!needsLinks(change, new Set(delivery.ruleIds))) return change
      const linked = await reader.isLinked(
        by.crm,
        // Links exist only under the id that the deal has now.
        [
          { ...wanted, dealId: deal.id },
          ...alike
            .filter((other) => mayNeedLinks(other.possible))
            .map((other) => wantedOf(other, atMs)),
        ],
        history,
        by.urgency,
      )
      // It is gone, or hidden from the user, since the deal was read.
      if (linked === undefined) return undefined
      return { ...change, deal: { ...deal, linked } }
    },

    /** Reads the owner of a deal, for a message about this deal alone. Undefined if it is not known. */
    async owner(ownerId: string, by: ReadBy): Promise<CrmOwner | undefined> {
      const { ownerOf } = ofCrm[by.crm.provider]
      try {
        return await withAccess(by.crm, by.urgency, (access) => ownerOf(access, ownerId))
      } catch (error) {
        // A message without the owner is better than a message that waits for it.
        if (error instanceof ProviderError) return undefined
        throw error
      }
    },
  }
}

/** The former value, if the event told it. */
const formerOf = ({ former }: DealDelivery): Change['from'] =>
  former === null ? undefined : JSON.parse(former)

/** The history that tells the former value, if the event did not. */
const historyFor = ({ property, former }: DealDelivery) => (former === null ? property : undefined)

function createReaders(crm: Crm, withAccess: WithAccess) {
  return {
    reader: createDealReader(crm, withAccess),
    stagesOf: createStageCache(crm),
    ownerOf: createOwnerCache(crm),
  }
}
