import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire, syncBuiltinESMExports } from 'node:module'

// Virtual time: nothing waits. The next timer fires as soon as everything before it has come to rest.

/** A process of the simulation, or another part of the world that timers belong to. */
export interface Owner {
  name: string
  alive: boolean
  /** It stands still until this time, in virtual ms. What would happen earlier happens then. */
  frozenUntil: number
}

interface Timer {
  at: number
  order: number
  owner: Owner | undefined
  run: () => void
}

const real = {
  Date: globalThis.Date,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
  random: Math.random,
  performanceNow: performance.now,
  abortAfter: AbortSignal.timeout,
  fetch: globalThis.fetch,
}
const promises = createRequire(import.meta.url)('node:timers/promises')
const realPromises = { setTimeout: promises.setTimeout, setImmediate: promises.setImmediate }

/** Random numbers from a seed, always the same ones. */
export class Dice {
  #random: number

  constructor(seed: number) {
    this.#random = seed
  }

  /** A number from 0 to 1 (mulberry32). */
  random = (): number => {
    this.#random = (this.#random + 0x6d2b79f5) | 0
    let t = Math.imul(this.#random ^ (this.#random >>> 15), 1 | this.#random)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  between = (least: number, most: number): number => least + this.random() * (most - least)
  whole = (least: number, most: number): number => Math.floor(this.between(least, most + 1))
  chance = (share: number): boolean => this.random() < share
  oneOf<Item>(items: readonly [Item, ...Item[]]): Item {
    return items[Math.floor(this.random() * items.length)] ?? items[0]
  }
}

/** Virtual time, which begins at `startMs` (since 1970), and the dice that decide what comes first. */
export class Time {
  now: number
  readonly startMs: number
  readonly dice: Dice
  /** How far the clock of processes and database is ahead, and when it was put right. */
  clockAheadMs = 0
  clockRightAt = 0
  readonly #owners = new AsyncLocalStorage<Owner>()
  #timers: Timer[] = []
  #count = 0

  constructor(startMs: number, seed: number) {
    this.now = startMs
    this.startMs = startMs
    this.dice = new Dice(seed)
  }

  /** Runs `task` as this owner: the timers that it starts belong to the owner. */
  as<Result>(owner: Owner | undefined, task: () => Result): Result {
    return owner === undefined ? this.#owners.exit(task) : this.#owners.run(owner, task)
  }

  current = (): Owner | undefined => this.#owners.getStore()

  /** Runs `task` later, as the owner. Never, if the owner has died. @returns a function that prevents it. */
  after(ms: number, owner: Owner | undefined, task: () => void): () => void {
    const timer = { at: this.now + Math.max(0, ms), order: this.#count++, owner, run: task }
    // The list is sorted with the next timer last.
    let low = 0
    let high = this.#timers.length
    while (low < high) {
      const middle = (low + high) >> 1
      const each = this.#timers[middle]
      if (each !== undefined && each.at > timer.at) low = middle + 1
      else high = middle
    }
    this.#timers.splice(low, 0, timer)
    return () => {
      const at = this.#timers.indexOf(timer)
      if (at !== -1) this.#timers.splice(at, 1)
    }
  }

  wait = (ms: number, owner: Owner | undefined): Promise<void> =>
    new Promise((resolve) => this.after(ms, owner, resolve))

  /** Lets everything happen up to a time. */
  async runUntil(at: number): Promise<void> {
    for (;;) {
      await this.#rest()
      const next = this.#timers.at(-1)
      if (next === undefined || next.at > at) {
        this.now = Math.max(this.now, at)
        return
      }
      this.#timers.pop()
      this.now = Math.max(this.now, next.at)
      const { owner } = next
      if (owner !== undefined && !owner.alive) continue
      if (owner !== undefined && owner.frozenUntil > this.now) {
        this.after(owner.frozenUntil - this.now, owner, next.run)
        continue
      }
      this.as(owner, next.run)
    }
  }

  /** Everything that needs no timer happens now. The database and the providers answer at once. */
  async #rest(): Promise<void> {
    await new Promise((resolve) => real.setImmediate(resolve))
  }

  /** Makes this the time of the whole program, until `uninstall`. */
  install(): void {
    const time = this
    class VirtualDate extends real.Date {
      constructor(...parts: []) {
        if (parts.length === 0) super(time.now + time.clockAheadMs)
        else super(...parts)
      }
      static override now = () => Math.floor(time.now + time.clockAheadMs)
    }
    const start = (ms: number | undefined, run: () => void, again: boolean) => {
      const owner = time.current()
      let cancel: () => void
      const begin = () => {
        cancel = time.after(ms ?? 0, owner, () => {
          if (again) begin()
          run()
        })
      }
      begin()
      const timer = {
        ref: () => timer,
        unref: () => timer,
        hasRef: () => true,
        close: () => cancel(),
        [Symbol.dispose]: () => cancel(),
      }
      return timer
    }
    type Task = (...parts: unknown[]) => void
    const clear = (timer?: { close?: () => void }) => timer?.close?.()
    Object.assign(globalThis, {
      Date: VirtualDate,
      setTimeout: (run: Task, ms?: number, ...parts: unknown[]) =>
        start(ms, () => run(...parts), false),
      setInterval: (run: Task, ms?: number, ...parts: unknown[]) =>
        start(ms, () => run(...parts), true),
      clearTimeout: clear,
      clearInterval: clear,
    })
    Math.random = this.dice.random
    performance.now = () => this.now - this.startMs
    AbortSignal.timeout = (ms) => {
      const controller = new AbortController()
      const reason = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
      start(ms, () => controller.abort(reason), false)
      return controller.signal
    }
    promises.setTimeout = (
      ms: number,
      value?: unknown,
      { signal }: { signal?: AbortSignal } = {},
    ) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason)
        const cancel = this.after(ms, this.current(), () => resolve(value))
        signal?.addEventListener('abort', () => {
          cancel()
          reject(signal.reason)
        })
      })
    promises.setImmediate = (value?: unknown) =>
      new Promise((resolve) => this.after(0, this.current(), () => resolve(value)))
    syncBuiltinESMExports()
  }

  uninstall(): void {
    const { random, performanceNow, abortAfter, ...globals } = real
    Object.assign(globalThis, globals)
    Math.random = random
    performance.now = performanceNow
    AbortSignal.timeout = abortAfter
    Object.assign(promises, realPromises)
    syncBuiltinESMExports()
  }
}
