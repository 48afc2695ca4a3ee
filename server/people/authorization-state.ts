import * as v from 'valibot'
import type { ProviderId } from '../providers/registry.ts'
import { authorizationLifetimeMs } from './session.ts'
import type { Vault } from './vault.ts'

/**
 * What a state holds, sealed: so nothing of an authorization is stored before its callback. The state is bound to the
 * browser by the token of its cookie (RFC 9700 §4.7.1). Nobody can use the PKCE verifier (RFC 7636) without the code
 * and the client secret, and only we can open it.
 */
const sealedState = v.object({
  provider: v.string(),
  codeVerifier: v.string(),
  tokenHash: v.string(),
  /** Whether the browser had a cookie of ours already. */
  keepsCookies: v.boolean(),
  /** Milliseconds since 1970. */
  endsAt: v.number(),
})
const sealedAs = 'authorization.state'

type Begun = Pick<v.InferOutput<typeof sealedState>, 'codeVerifier' | 'tokenHash' | 'keepsCookies'>

/** Seals what begins an authorization. It ends in ten minutes. */
export function sealState(vault: Vault, provider: ProviderId, begun: Begun, now: Date): string {
  const endsAt = now.getTime() + authorizationLifetimeMs
  const content: v.InferOutput<typeof sealedState> = { provider, endsAt, ...begun }
  return vault.seal(JSON.stringify(content), sealedAs)
}

/** What a state says. Undefined unless it is ours, of this provider, and in time. */
export function openState(vault: Vault, provider: ProviderId, state: string, now: Date) {
  try {
    const { endsAt, ...begun } = v.parse(sealedState, JSON.parse(vault.open(state, sealedAs)))
    if (begun.provider !== provider || endsAt <= now.getTime()) return undefined
    return begun
  } catch {
    // It is not ours.
    return undefined
  }
}

/** What binds the code of a pasted address to the authorization that it was pasted in. */
const codeRow = (codeVerifier: string) => `authorization.code ${codeVerifier}`

/** Seals a pasted address as an authorization code. */
export const sealCode = (vault: Vault, codeVerifier: string, content: object): string =>
  vault.seal(JSON.stringify(content), codeRow(codeVerifier))

/** @throws VaultError if the code was made in another authorization. */
export const openCode = (vault: Vault, codeVerifier: string, code: string): string =>
  vault.open(code, codeRow(codeVerifier))
