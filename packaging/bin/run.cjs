const { existsSync } = require('node:fs')
const { join } = require('node:path')
const { pathToFileURL } = require('node:url')

const programs = { start: 'main', relay: 'relay', data: 'data', doctor: 'doctor' }
const fileOf = (program) => join(__dirname, `../server/${programs[program]}.js`)

const [name = 'start'] = process.argv.splice(2, 1)
const names = Object.keys(programs).filter((each) => existsSync(fileOf(each)))
if (name === '--help') {
  console.log(`Usage: dealbell ${names.join('|')} …`)
  process.exit()
}
if (name === '--version') {
  console.log(require('../package.json').version)
  process.exit()
}
if (!names.includes(name)) {
  console.error(`There is no 'dealbell ${name}'. There are: ${names.join(', ')}.`)
  process.exit(2)
}
import(pathToFileURL(fileOf(name)))
