import { inSentence } from '../../providers/foreign-text.ts'

const longestCurrency = 20
const currencies = new Intl.DisplayNames('en', { type: 'currency', fallback: 'none' })
/** Digits that are exact in a double: 0.1 + 0.2 is 0.30000000000000004. */
const allDigits = { maximumSignificantDigits: 15 }

/**
 * Formats an amount, such as '€1,250.50', '€1,250' or, with a currency of the account's own, '1,500 USDT'. Usual decimals
 * of the currency. All decimals if the usual ones would show 0 or are unknown. Returns undefined if the deal has no amount.
 */
export function formatAmount(amount: string | null, currency: string | null): string | undefined {
  if (amount === null || amount.trim() === '') return undefined
  const value = Number(amount)
  if (!Number.isFinite(value)) return undefined
  const name = inSentence((currency ?? '').toUpperCase(), longestCurrency)
  // Intl accepts any three letters, even if no such currency exists. It throws for other codes.
  const isCode = /^[A-Z]{3}$/.test(name)
  const size = Math.abs(value)
  const format = (digits?: typeof allDigits) =>
    new Intl.NumberFormat('en', {
      ...(isCode && { style: 'currency', currency: name }),
      trailingZeroDisplay: 'stripIfInteger',
      // No sign before 0.
      signDisplay: 'negative',
      // Otherwise zeros would fill lines.
      notation: size >= 1e21 || (size > 0 && size < 1e-18) ? 'scientific' : 'standard',
      ...digits,
    }).format(value)
  const usual = isCode && currencies.of(name) !== undefined ? format() : ''
  const shown = /[1-9]/.test(usual) ? usual : format(allDigits)
  return isCode || name === '' ? shown : `${shown} ${name}`
}
