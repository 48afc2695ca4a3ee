const base =
  'inline-flex min-h-9 items-center justify-center rounded-lg border px-4 py-1.5 text-center text-sm font-medium shadow-xs transition-colors pointer-coarse:min-h-11 motion-reduce:transition-none not-aria-disabled:not-disabled:active:translate-y-px disabled:shadow-none aria-disabled:cursor-progress'

/** The classes of a button, for a `<button>` and for a link that looks like one. */
export const buttonStyle = {
  primary: `${base} border-transparent bg-accent text-on-accent not-aria-disabled:not-disabled:hover:bg-accent-strong disabled:opacity-80`,
  secondary: `${base} border-edge bg-surface text-ink not-aria-disabled:not-disabled:hover:bg-canvas not-aria-disabled:not-disabled:hover:border-muted disabled:text-muted aria-disabled:bg-canvas aria-disabled:text-muted`,
} as const
