import { useEffect, useId, useRef } from 'react'
import { useKnownStatus } from '../api/connections.ts'
import { usePerson } from '../api/person.ts'
import { useEndOtherSessions, useEndSession } from '../api/session.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'

/**
 * The menu at the end of the header, which signs out this browser, or all others of the same user. The line below the
 * header says the result. It stays after a sign-out.
 */
export function AccountMenu() {
  const crm = useKnownStatus(config.crm)
  const chat = useKnownStatus(config.chat)
  const account = crm.data?.account
  const person = usePerson()
  const own = useEndSession()
  // Nobody knows whether there still is a session. So the menu stays, to try again.
  const mayBeSignedIn = own.isError && (crm.isError || chat.isError)
  // A backend that names nobody does not say whether there is a session.
  const isSignedIn =
    mayBeSignedIn ||
    (crm.isFetched &&
      chat.isFetched &&
      (person === undefined
        ? [crm, chat].some(({ data }) => data?.connected || data?.reason)
        : person !== 'nobody'))
  const others = useEndOtherSessions()
  const menuId = useId()
  const menu = useRef<HTMLDivElement>(null)
  const line = useRef<HTMLParagraphElement>(null)
  // The answer may be lost, and then the next one names nobody.
  const isSignedOut = own.isSuccess || (own.isError && person === 'nobody')
  const hasFailed = (own.isError && !isSignedOut) || others.isError

  // The menu covers the line.
  const hasResult = isSignedOut || others.isSuccess || hasFailed
  useEffect(() => {
    if (!hasResult) return
    // The focus goes back to the button.
    menu.current?.hidePopover()
    if (isSignedOut || document.activeElement === document.body) line.current?.focus()
  }, [hasResult, isSignedOut])

  return (
    <>
      {isSignedIn && (
        <div className="flex min-w-12 flex-1 basis-0 justify-end">
          <button type="button" popoverTarget={menuId} className="account-button">
            <span className="truncate">{account ?? 'Account'}</span>
            <span aria-hidden>▾</span>
          </button>
          {/* biome-ignore lint/a11y/noStaticElementInteractions: it only hears what leaves it. */}
          <div
            ref={menu}
            id={menuId}
            popover="auto"
            className="account-menu"
            onBlur={({ currentTarget, relatedTarget }) => {
              // A click on the button of the menu closes it.
              if (relatedTarget?.closest('[popover], [popovertarget]') === null)
                currentTarget.hidePopover()
            }}
          >
            {account !== undefined && (
              <p className="px-3 py-2 text-muted wrap-anywhere">{`${config.crm.name}: ${account}`}</p>
            )}
            <Button
              kind="item"
              busy={own.isPending}
              onClick={() => {
                others.reset()
                own.mutate()
              }}
            >
              Sign out of this browser
            </Button>
            <Button
              kind="item"
              busy={others.isPending}
              onClick={() => {
                own.reset()
                others.mutate()
              }}
            >
              Sign out of all other browsers
            </Button>
          </div>
        </div>
      )}
      <p ref={line} role="status" tabIndex={-1} className="account-line">
        {isSignedOut
          ? `Signed out. Connect ${config.crm.name} to find your settings again.`
          : others.isSuccess
            ? 'Signed out of all other browsers.'
            : hasFailed && '❌ Failed to sign out, try again.'}
      </p>
    </>
  )
}
