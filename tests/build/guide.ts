// These sentences of a guide are understood. The first two say where the code block below them belongs:
//
//   Create `FILE`:
//   In `FILE`, add to the imports|before the line|after the line `A PART OF THE LINE`:
//   `COMMAND` passes
//   `COMMAND` fails: `OUTPUT`, `OUTPUT` and `OUTPUT`
//
// A block of `sh` is run.

export type Step =
  | { do: 'create'; file: string; text: string }
  | { do: 'add'; file: string; place: string; line: string; text: string }
  | { do: 'run'; command: string; fails?: readonly string[] | undefined }

const commands =
  /`(?<command>(?:npm|npx) [^`]+)` (?:passes|fails: (?<output>`[^`]+`(?:(?:,| and) `[^`]+`)*))/g
const place =
  /(?:Create `(?<created>[^`]+)`|In `(?<file>[^`]+)`, add (?<place>to the imports|(?:before|after) the line `(?<line>[^`]+)`)):$/

/** Reads the steps of a guide. @throws Error if no sentence says where a code block belongs. */
export function stepsOf(guide: string): Step[] {
  // A prose, the language and the text of a code block, and so on.
  const parts = guide.split(/^```(\w+)\n(.*?)^```$/ms)
  return parts.flatMap((part, at): Step[] => {
    if (at % 3 !== 0) return []
    const prose = part.replaceAll(/\s+/g, ' ').trim()
    const runs = [...prose.matchAll(commands)].map(({ groups = {} }): Step => {
      const { command = '', output } = groups
      return { do: 'run', command, fails: output?.split('`').filter((_, at) => at % 2 === 1) }
    })
    const [language, text] = parts.slice(at + 1)
    if (text === undefined) return runs
    if (language === 'sh') return [...runs, { do: 'run', command: text }]
    const found = place.exec(prose)?.groups
    if (found === undefined) throw new Error(`No sentence says where this belongs:\n${text}`)
    const { created, file = '', place: where = '', line = 'import ' } = found
    if (created !== undefined) return [...runs, { do: 'create', file: created, text }]
    return [...runs, { do: 'add', file, place: where, line, text }]
  })
}
