import { chaosTest } from './chaos.ts'

chaosTest('PostgreSQL', 2)
