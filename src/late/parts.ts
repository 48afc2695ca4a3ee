import { AccountMenu } from './AccountMenu.tsx'
import { PageNotice } from './PageNotice.tsx'
import { RuleNote } from './RuleNote.tsx'
import { StandInLink } from './StandInLink.tsx'
import { TestMessage } from './TestMessage.tsx'
import { FailedMessages, UnsentMessages } from './UnsentMessages.tsx'

/** What the pages show beyond §7. It is one script, which load.ts loads. */
export const parts = {
  AccountMenu,
  FailedMessages,
  PageNotice,
  RuleNote,
  StandInLink,
  TestMessage,
  UnsentMessages,
}
