import { QueryClientProvider, useQuery } from '@tanstack/react-query'
import { renderHook, waitFor } from '@testing-library/react'
import type { ReactNode } from 'react'
import { check, object, pipe } from 'valibot'
import { expect, test, vi } from 'vitest'
import { getJson } from '../../src/api/client.ts'
import { callOptions, createQueryClient } from '../../src/api/query-client.ts'
import { startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

// What whoever writes a hook does wrong first. The log says so, and says nothing about the server.

const broken = new TypeError('Cannot read properties of undefined')
const fail = () => {
  throw broken
}

test.each<[string, () => Promise<unknown>]>([
  ['a schema', () => getJson('/health', pipe(object({}), check(fail)))],
  ['an import', async () => fail()],
  ['what reads each answer', () => getJson('/health', object({}))],
])(
  'a fault in %s is logged with its cause, and is not called one of the network',
  async (where, queryFn) => {
    const { calls } = startBackend()
    if (where.startsWith('what')) vi.spyOn(Date, 'parse').mockImplementation(fail)
    const query = callOptions({ queryKey: ['health'], queryFn, meta: { action: 'Loading names' } })
    const client = createQueryClient({ retryDelayMs: 0 })
    const wrapper = ({ children }: { children: ReactNode }) => (
      <QueryClientProvider client={client}>{children}</QueryClientProvider>
    )
    const { result } = renderHook(() => useQuery(query), { wrapper })
    await waitFor(() => expect(result.current.isError).toBe(true))
    vi.mocked(Date.parse).mockRestore?.()
    const [line, ...others] = takeLog()
    expect(line).toMatch(/^Loading names failed: .*TypeError: Cannot read properties of undefined$/)
    expect(line).not.toMatch(/server|reached/)
    expect(others).toEqual([])
    expect(calls().length).toBeLessThan(2)
  },
)
