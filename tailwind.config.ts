import type { Config } from 'tailwindcss'

/** The colours are custom properties, so that light and dark are one set of classes (src/styles.css). */
const tokens = [
  'canvas',
  'surface',
  'line',
  'edge',
  'ink',
  'muted',
  'accent',
  'accent-strong',
  'on-accent',
  'good',
  'bad',
  'warning',
  'warning-line',
  'warning-sign',
  'on-warning',
]

export default {
  theme: {
    extend: { colors: Object.fromEntries(tokens.map((token) => [token, `var(--${token})`])) },
  },
} satisfies Config
