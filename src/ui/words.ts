/** A number such as '1,200'. */
export const written = (number: number) => number.toLocaleString('en')

/** A number with its noun, such as '1 message' or '1,200 messages'. */
export const count = (number: number, noun: string) =>
  `${written(number)} ${noun}${number === 1 ? '' : 's'}`

/** Adds a full stop, which the reasons and sentences of a backend may not have. */
export const ended = (sentence: string) => (/[.!?…]$/.test(sentence) ? sentence : `${sentence}.`)
