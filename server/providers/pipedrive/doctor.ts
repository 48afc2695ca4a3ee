import type { ProviderDoctor } from '../provider-doctor.ts'

export const pipedriveDoctor: ProviderDoctor = { checks: [], files: () => ({}) }
