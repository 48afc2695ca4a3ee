import * as v from 'valibot'
import { visibleText } from '../../../contract/visible.ts'
import { unlessMissing } from '../crm-answers.ts'
import type { Stage } from '../deal.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import { closedStage } from './fields.ts'
import { listOf, missing, type PipedriveHttp } from './http.ts'

const atOnce = '500'
/** Enough for 10,000 stages. */
const mostPages = 20

const named = { id: v.number(), name: v.string(), order_nr: v.nullish(v.number(), 0) }
const pipeline = v.object({ ...named, is_deleted: v.nullish(v.boolean()) })
const stage = v.object({ ...named, pipeline_id: v.number() })
const user = v.object({ name: v.nullish(v.string()), email: v.nullish(v.string()) })

export function createPipedriveNames({ call }: PipedriveHttp): Pick<Crm, 'stages' | 'owner'> {
  /** Reads all pages of a list, and sorts it as Pipedrive shows it. */
  async function readAll<Item extends { order_nr: number }>(
    access: CrmAccess,
    name: 'stages' | 'pipelines',
    item: v.GenericSchema<unknown, Item>,
  ): Promise<Item[]> {
    const items: Item[] = []
    let cursor: string | undefined
    for (let page = 0; page < mostPages; page++) {
      const query = new URLSearchParams({ limit: atOnce, ...(cursor && { cursor }) })
      const { data, next } = await call(access, name, `v2/${name}?${query}`, listOf(item))
      items.push(...data)
      cursor = next
      if (cursor === undefined) break
    }
    return items.sort((a, b) => a.order_nr - b.order_nr)
  }

  return {
    async stages(access) {
      const pipelines = await readAll(access, 'pipelines', pipeline)
      const stages = await readAll(access, 'stages', stage)
      const areSeveral = pipelines.filter(({ is_deleted }) => !is_deleted).length > 1
      return pipelines.flatMap(({ id: pipelineId, name }): Stage[] => {
        const own = stages.filter(({ pipeline_id }) => pipeline_id === pipelineId)
        const all: Array<Omit<Stage, 'pipeline'>> = [
          ...own.map(({ id, name }) => ({ id: String(id), label: name, outcome: 'open' as const })),
          { id: closedStage('won', pipelineId), label: 'Won', outcome: 'won' },
          { id: closedStage('lost', pipelineId), label: 'Lost', outcome: 'lost' },
        ]
        return all.map((stage) => ({ ...stage, ...(areSeveral && { pipeline: name }) }))
      })
    },

    async owner(access, ownerId) {
      const path = `v1/users/${encodeURIComponent(ownerId)}`
      const found = await unlessMissing(call(access, 'user', path, user), [missing])
      const email = found?.data.email || undefined
      const name = visibleText(found?.data.name ?? '') ?? email
      return name === undefined ? undefined : { name, email }
    },
  }
}
