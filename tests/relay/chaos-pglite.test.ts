import { chaosTest } from './chaos.ts'

chaosTest('PGlite', 1)
