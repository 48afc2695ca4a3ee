const button =
  'inline-flex min-h-9 cursor-pointer items-center justify-center rounded-lg border px-3 py-1.5 text-center text-sm font-semibold shadow-xs transition-colors idle:active:translate-y-px disabled:cursor-progress disabled:shadow-none aria-disabled:cursor-progress motion-reduce:transition-none sm:px-4 pointer-coarse:min-h-11'

/** The classes of a `<button>`, and of a link that looks like one. */
export const buttonStyle = {
  primary: `${button} border-transparent bg-accent text-on-accent idle:hover:bg-accent-strong disabled:opacity-80`,
  secondary: `${button} border-edge bg-surface text-ink idle:hover:border-muted idle:hover:bg-canvas disabled:text-muted aria-disabled:bg-canvas aria-disabled:text-muted`,
  // Within a text. Its border is visible only in forced colours. It lies above what covers the row of a rule. A finger's
  // target reaches into the lines above and below, and needs no room of its own.
  text: 'text-link relative z-1 -mx-1 inline-block cursor-pointer border border-transparent px-1 leading-[1.375rem] aria-disabled:cursor-progress aria-disabled:text-muted pointer-coarse:-my-2.5 pointer-coarse:py-2.5',
  item: 'min-h-9 cursor-pointer rounded-lg border border-transparent px-3 py-2 text-left hover:bg-canvas pointer-coarse:min-h-11',
} as const
