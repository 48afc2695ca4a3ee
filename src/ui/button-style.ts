/** The classes of a `<button>`, and of a link that looks like one (src/styles.css). */
export const buttonStyle = {
  primary: 'button button-primary',
  secondary: 'button button-secondary',
  text: 'text-button',
  item: 'min-h-9 cursor-pointer rounded-lg border border-transparent px-3 py-2 text-left hover:bg-canvas pointer-coarse:min-h-11',
} as const
