import * as v from 'valibot'
import { visibleText } from '../../../contract/visible.ts'
import { unlessMissing } from '../crm-answers.ts'
import type { Stage } from '../deal.ts'
import type { Crm } from '../provider.ts'
import { type HubspotHttp, notFound } from './http.ts'

const pipelinesAnswer = v.object({
  results: v.array(
    v.object({
      // Messages do without it.
      label: v.fallback(v.optional(v.string()), undefined),
      stages: v.array(
        v.object({
          id: v.string(),
          label: v.string(),
          metadata: v.optional(v.record(v.string(), v.unknown()), {}),
        }),
      ),
    }),
  ),
})

const ownerAnswer = v.object({
  firstName: v.optional(v.nullable(v.string())),
  lastName: v.optional(v.nullable(v.string())),
  email: v.optional(v.nullable(v.string())),
})

export function createHubspotNames({ read }: HubspotHttp): Pick<Crm, 'stages' | 'owner'> {
  return {
    async stages(access) {
      const { results } = await read(access, '/crm/pipelines/2026-03/deals', pipelinesAnswer)
      return results.flatMap((pipeline) =>
        pipeline.stages.map(({ id, label, metadata }) => ({
          id,
          label,
          outcome: outcomeOf(metadata),
          ...(results.length > 1 && { pipeline: pipeline.label }),
        })),
      )
    },

    async owner(access, ownerId) {
      const path = `/crm/owners/2026-03/${encodeURIComponent(ownerId)}`
      // A wrong 404 costs only the name, and HubSpot's document does not say which code an owner's has.
      const find = (path: string) =>
        unlessMissing(read(access, path, ownerAnswer), [notFound, 'status_404'])
      // Owners who left the company are archived.
      const owner = (await find(path)) ?? (await find(`${path}?archived=true`))
      const email = owner?.email || undefined
      const fullName = [owner?.firstName, owner?.lastName].filter(Boolean).join(' ')
      const name = visibleText(fullName) ?? email
      return name === undefined ? undefined : { name, email }
    },
  }
}

/**
 * Decides whether a stage is won (probability 1) or lost (0). All metadata are strings. HubSpot documents
 * only `probability`; its real answers also have `isClosed`, which then decides whether it is closed.
 */
function outcomeOf(metadata: { isClosed?: unknown; probability?: unknown }): Stage['outcome'] {
  const { isClosed, probability } = metadata
  if (isClosed !== undefined && isClosed !== 'true') return 'open'
  const number =
    typeof probability === 'string' && probability.trim() !== '' ? Number(probability) : Number.NaN
  if (number === 1) return 'won'
  if (number === 0) return 'lost'
  return isClosed === undefined ? 'open' : 'closed'
}
