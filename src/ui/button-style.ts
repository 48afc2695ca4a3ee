/** The classes of a `<button>`, and of a link that looks like one (src/styles.css). */
export const buttonStyle = {
  primary: 'button button-primary',
  secondary: 'button button-secondary',
  text: 'text-button',
  item: 'account-item',
} as const
