import { bounded } from '../ui/Boundary.tsx'
import { AccountMenu } from './AccountMenu.tsx'
import { PageNotice } from './PageNotice.tsx'
import { RuleNote } from './RuleNote.tsx'
import { StandInLink } from './StandInLink.tsx'
import { TestMessage } from './TestMessage.tsx'
import { FailedMessages, UnsentMessages } from './UnsentMessages.tsx'
import { WrongAddress } from './WrongAddress.tsx'

/** What the pages show beyond §7. It is one script, which load.ts loads. A part that fails leaves the others alone. */
export const parts = {
  AccountMenu: bounded(AccountMenu),
  FailedMessages: bounded(FailedMessages),
  PageNotice: bounded(PageNotice),
  RuleNote: bounded(RuleNote),
  StandInLink: bounded(StandInLink),
  TestMessage: bounded(TestMessage),
  UnsentMessages: bounded(UnsentMessages),
  WrongAddress: bounded(WrongAddress),
}
