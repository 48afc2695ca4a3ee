// Runs before each program. This file is ES5, so that every Node can read it and say which one is needed.
var found = process.versions.node
if (Number(found.split('.')[0]) < 24) {
  console.error(
    'Dealbell needs Node 24 or later, but this is Node ' +
      found +
      ': ' +
      process.execPath +
      '\nnpm ci installs Node 24, unless ignore-scripts is set. Then run: npm rebuild node --ignore-scripts=false'
  )
  process.exit(1)
}
