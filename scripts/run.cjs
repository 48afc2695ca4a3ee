// npm starts a program with this file: `node scripts/run.cjs FILE [arguments]`. An older Node can read it, too,
// so that it says what is missing. The project installs its own Node with an install script, which `ignore-scripts` leaves out.

const { resolve } = require('node:path')
const { pathToFileURL } = require('node:url')

const needed = 24
const [major] = process.versions.node.split('.')

if (Number(major) < needed) {
  console.error(
    `Dealbell needs Node ${needed}, and this is Node ${process.versions.node}. The project brings its own Node, whose install script has not run. With npm, run: npm rebuild node --ignore-scripts=false`,
  )
  process.exitCode = 1
} else {
  const file = resolve(process.argv[2])
  // The program sees its arguments as if node had started it.
  process.argv.splice(1, 2, file)
  import(pathToFileURL(file).href)
}
