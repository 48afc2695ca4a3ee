import { type ProviderId, providerIds, registry } from './registry.ts'

/** The path of the first page of each provider that a stand-in plays, by the provider's id. */
export function standInPages(
  providers: Readonly<Record<ProviderId, { standIn: boolean }>>,
): Partial<Record<ProviderId, string>> {
  return Object.fromEntries(
    providerIds
      .filter((id) => providers[id].standIn)
      .map((id) => [id, `/sandbox/${id}${registry[id].standIn.pagePath}`]),
  )
}
