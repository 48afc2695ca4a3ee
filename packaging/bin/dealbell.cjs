// Starts a program of this release. This file is ES5, so that every Node can read it and say which one is needed.
var needed = require('../package.json').engines.node.replace('>=', '')
if (Number(process.versions.node.split('.')[0]) < Number(needed)) {
  console.error(
    'Dealbell needs Node ' +
      needed +
      ' or later, but this is Node ' +
      process.versions.node +
      ': ' +
      process.execPath
  )
  process.exit(1)
}

require('./run.cjs')
