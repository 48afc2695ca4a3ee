import { crashTests } from './crash.ts'

crashTests('PostgreSQL')
