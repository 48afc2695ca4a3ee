import { randomBytes } from 'node:crypto'

const lifetimeMs = 5 * 60 * 1000
/** Anyone can request codes, so the oldest make room for new ones. */
const maxOpen = 1_000

/** The authorization codes of a stand-in. Each is single use and bound to its request. */
export class StandInCodes<Binding> {
  /** The oldest first. */
  readonly #open = new Map<string, { binding: Binding; endsAt: number }>()

  issue(binding: Binding): string {
    for (const [code, { endsAt }] of this.#open) {
      if (endsAt >= Date.now() && this.#open.size < maxOpen) break
      this.#open.delete(code)
    }
    const code = randomBytes(24).toString('base64url')
    this.#open.set(code, { binding, endsAt: Date.now() + lifetimeMs })
    return code
  }

  take(code: string): Binding | undefined {
    const found = this.#open.get(code)
    this.#open.delete(code)
    return found !== undefined && found.endsAt >= Date.now() ? found.binding : undefined
  }
}
