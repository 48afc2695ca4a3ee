import { parseConfig } from './parse-config.ts'

/** The settings of this build. The build has already checked them. */
export const config = parseConfig(import.meta.env)
