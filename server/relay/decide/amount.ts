/** Formats an amount, such as '€1,250.50' or '€1,250'. Returns undefined if the deal has no amount. */
export function formatAmount(amount: string | null, currency: string | null): string | undefined {
  if (amount === null || amount.trim() === '') return undefined
  const value = Number(amount)
  if (!Number.isFinite(value)) return undefined
  const code = currency?.toUpperCase()
  // Intl accepts any three letters, even if no such currency exists. It throws for other codes.
  if (code === undefined || !/^[A-Z]{3}$/.test(code))
    return new Intl.NumberFormat('en').format(value)
  return new Intl.NumberFormat('en', {
    style: 'currency',
    currency: code,
    trailingZeroDisplay: 'stripIfInteger',
  }).format(value)
}
