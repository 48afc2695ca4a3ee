// Starts a program of this release. It runs on every Node, so that a wrong one gets a sentence.
import { existsSync, readFileSync } from 'node:fs'

const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8')
const needed = JSON.parse(read('../package.json')).engines.node.replace('>=', '')
if (Number(process.versions.node.split('.')[0]) < Number(needed)) {
  console.error(
    `Dealbell needs Node ${needed} or later, but this is Node ${process.versions.node}: ${process.execPath}`,
  )
  process.exit(1)
}

const programs = { start: 'main', relay: 'relay', data: 'data', doctor: 'doctor' }
const [name = 'start'] = process.argv.splice(2, 1)
const names = Object.keys(programs).filter((each) => existsSync(fileOf(each)))
if (!names.includes(name)) {
  console.error(`There is no 'dealbell ${name}'. There are: ${names.join(', ')}.`)
  process.exit(2)
}
await import(fileOf(name).href)

function fileOf(program) {
  return new URL(`../server/${programs[program]}.js`, import.meta.url)
}
