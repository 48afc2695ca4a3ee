import { parseConfig } from './parse-config.ts'

/** The settings of this build. The build has already checked them. */
export const config = parseConfig(import.meta.env)

/** A service that the user can connect. */
export type Provider = (typeof config)['crm' | 'chat']
