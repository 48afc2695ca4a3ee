/**
 * An account of a CRM that answers slowly gets at most half of the channels that a process works on
 * (loop.ts).
 */
const mostOfOneAccount = 250

/** Creates the function that works on a delivery, unless too many channels are busy with its account already. */
export function createBusyAccounts() {
  /** How many channels are being worked on, for each account of a CRM. */
  const busyChannels = new Map<string, number>()

  /** @returns the result of the task; undefined if the account is too busy, and the task did not run. */
  return async function unlessBusy<Result>(
    account: string,
    task: () => Promise<Result>,
  ): Promise<Result | undefined> {
    const busy = busyChannels.get(account) ?? 0
    if (busy >= mostOfOneAccount) return undefined
    busyChannels.set(account, busy + 1)
    try {
      return await task()
    } finally {
      const left = (busyChannels.get(account) ?? 1) - 1
      if (left > 0) busyChannels.set(account, left)
      else busyChannels.delete(account)
    }
  }
}
