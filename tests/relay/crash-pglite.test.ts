import { crashTests } from './crash.ts'

crashTests('PGlite')
