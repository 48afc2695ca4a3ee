/**
 * The size of a cache of lru-cache. With `max`, it would reserve the room of all entries at once, which takes a
 * millisecond and half a megabyte for each cache.
 */
export const atMost = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 })
