import { parseConfig } from './parse-config.ts'

/** The settings of this build; the build itself has already refused nonsense. */
export const config = parseConfig(import.meta.env)
