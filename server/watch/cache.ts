import { LRUCache } from 'lru-cache'
import { addCache } from './metrics.ts'

/**
 * Creates a cache that forgets what nobody needed for the longest time. The metrics show its size under `name`.
 * @param most entries. With `max`, lru-cache would reserve the room of all of them at once, which takes a millisecond and
 * half a megabyte for each cache.
 */
export function createCache<
  Value extends object | string | number | true,
  Key extends string | number = string,
>(name: string, most: number): LRUCache<Key, Value> {
  const cache = new LRUCache<Key, Value>({ maxSize: most, sizeCalculation: () => 1 })
  addCache(name, cache)
  return cache
}
