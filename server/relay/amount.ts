/** An amount such as '€1,250.00'; undefined when the deal has none. */
export function formatAmount(amount: string | null, currency: string | null): string | undefined {
  if (amount === null || amount.trim() === '') return undefined
  const value = Number(amount)
  if (!Number.isFinite(value)) return undefined
  const code = currency?.toUpperCase()
  // Intl accepts any three letters, whether or not it knows the currency.
  if (code === undefined || !/^[A-Z]{3}$/.test(code))
    return new Intl.NumberFormat('en').format(value)
  return new Intl.NumberFormat('en', { style: 'currency', currency: code }).format(value)
}
