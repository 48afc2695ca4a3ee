import { LRUCache } from 'lru-cache'

/**
 * Creates a cache that forgets what nobody needed for the longest time.
 * @param most entries, or the sum of their sizes if `set` gets them. With `max`, lru-cache would reserve the room of all
 * of them at once, which takes a millisecond and half a megabyte for each cache.
 * @param options A `fetchMethod` goes on if its entry has to go.
 */
export function createCache<
  Value extends object | string | number | true,
  Key extends string | number = string,
  Context = unknown,
>(
  most: number,
  options: LRUCache.OptionsBase<Key, Value, Context> = {},
): LRUCache<Key, Value, Context> {
  return new LRUCache<Key, Value, Context>({
    ...options,
    maxSize: most,
    sizeCalculation: () => 1,
    // By default, lru-cache reads the clock only once in a millisecond, with a timer.
    ttlResolution: 0,
    ignoreFetchAbort: true,
  })
}
