const base =
  'inline-flex min-h-9 items-center justify-center rounded-lg border px-4 text-sm font-medium transition-colors pointer-coarse:min-h-11 motion-reduce:transition-none focus-visible:outline-2 focus-visible:outline-offset-2 focus-visible:outline-accent'

/** The classes of a button, for a `<button>` and for a link that looks like one. */
export const buttonStyle = {
  primary: `${base} border-transparent bg-accent text-on-accent hover:bg-accent-strong aria-disabled:opacity-60 disabled:opacity-60`,
  secondary: `${base} border-line bg-surface text-ink hover:bg-canvas disabled:text-muted`,
} as const
