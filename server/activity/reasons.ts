import { type Providers, unknownRefusal } from '../providers/provider.ts'
import {
  addressIds,
  type ChatId,
  type CrmId,
  chatIds,
  registry,
  usedOf,
} from '../providers/registry.ts'

/**
 * Says why a delivery is in its state: words that can follow 'Not sent: ', 'Waiting: ' or 'Skipped: ',
 * without a full stop at the end. Null if there is nothing to say.
 * @param about `chat` is the user's chat, undefined if it is disconnected; `reason` is the stored code; `works`: both services
 * are connected now, so a reason that was about a connection is over.
 */
export function reasonInWords(
  providers: Providers,
  {
    state,
    reason,
    crm,
    chat,
    works = false,
  }: {
    state: 'pending' | 'dead' | 'ignored'
    reason: string | null
    crm: CrmId
    chat: ChatId | undefined
    works?: boolean
  },
): string | null {
  if (reason === null) return null
  const crmName = registry[crm].name
  const chats = chat === undefined ? usedOf(providers, chatIds) : ([chat] as const)
  const chatName = registry[chats[0]].name
  const connect = (name: string) => (works ? `${name} is connected again` : `Connect ${name} again`)

  if (state === 'ignored') {
    const skipped: Readonly<Record<string, string>> = {
      no_rule: 'none of your saved rules applies to this change',
      no_such_deal: `the deal is no longer in ${crmName}${
        providers[crm].readsAs === 'user' ? ', or you may not see it' : ''
      }`,
      said_in_channel: "another user's rule already reported this change in the channel",
    }
    return find(skipped, reason) ?? `no message was needed (${reason})`
  }

  // Both may have a code of this name. It does not say whose it was.
  const [broken, ...others] = ([crm, ...chats] as const).flatMap((id) => {
    const words = find(providers[id].brokenReasons, reason)
    return words === undefined ? [] : [{ name: registry[id].name, words }]
  })
  if (broken !== undefined) {
    const names = [broken, ...others].map(({ name }) => name).join(' or ')
    return others.length === 0
      ? `${broken.words}. ${connect(names)}`
      : `${names} no longer accepts the connection (${reason}). ${works ? 'Both are connected again' : 'Connect that service again'}`
  }

  const unknown = unknownRefusal(crm, '')
  if (reason.startsWith(unknown)) {
    return `${crmName} no longer accepts the connection (${reason.slice(unknown.length)}). ${connect(crmName)}`
  }
  const fromCrm = reason.startsWith(`${crm}_`) ? reason.slice(crm.length + 1) : undefined
  if (fromCrm !== undefined) {
    return find(failures(crmName), fromCrm) ?? `${crmName} answered with an error (${fromCrm})`
  }
  const known: Readonly<Record<string, string>> = {
    disconnected: `a service was disconnected${works ? '. Both are connected again' : ''}`,
    paused: 'whoever runs this server lets the messages of your account wait',
    no_channel: `${chatName} gave no channel. ${connect(chatName)}`,
    refused: `${crmName} no longer accepts the connection. ${connect(crmName)}`,
    // A chat may have an error of the same name.
    internal_error: 'an internal error occurred',
    ...failures(chatName),
  }
  return find(known, reason) ?? `${chatName} did not accept the message (${reason})`
}

/** What is not known of a message that the chat has accepted. Null if it is in the channel. */
export function doubtOf(providers: Providers, channel: string): string | null {
  const id = addressIds.find((id) => channel.startsWith(`${id}:`))
  return id === undefined || providers[id].confirms
    ? null
    : `${registry[id].name} has accepted it, but does not say whether it has posted it`
}

/** The failures that another try may not meet. */
const failures = (name: string): Readonly<Record<string, string>> => ({
  rate_limited: `${name} asks for a pause`,
  unreachable: `${name} did not answer`,
  nonsense: `${name} gave an answer that this server does not understand`,
  answer_too_large: `the answer of ${name} was too large`,
})

/** A stored code may have the name of something that every object has, such as `constructor`. */
function find(words: Readonly<Record<string, string>>, code: string): string | undefined {
  return Object.hasOwn(words, code) ? words[code] : undefined
}
