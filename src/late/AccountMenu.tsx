import { type FocusEvent, type KeyboardEvent, useEffect, useId, useRef, useState } from 'react'
import { useKnownStatus } from '../api/connections.ts'
import { usePerson } from '../api/person.ts'
import { useEndOtherSessions, useEndSession } from '../api/session.ts'
import { config } from '../config.ts'

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
  const [isOpen, setIsOpen] = useState(false)
  const menuId = useId()
  const menu = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const line = useRef<HTMLParagraphElement>(null)
  // The answer may be lost, and then the next one names nobody.
  const isSignedOut = own.isSuccess || (own.isError && person === 'nobody')
  const hasFailed = (own.isError && !isSignedOut) || others.isError

  // The menu of a person who is gone is not open for the next one.
  if (isOpen && !isSignedIn) setIsOpen(false)

  function close() {
    setIsOpen(false)
    button.current?.focus()
  }

  useEffect(() => {
    if (!isOpen) return
    const onPointerDown = ({ target }: PointerEvent) => {
      if (target instanceof Node && !menu.current?.contains(target)) setIsOpen(false)
    }
    document.addEventListener('pointerdown', onPointerDown)
    return () => document.removeEventListener('pointerdown', onPointerDown)
  }, [isOpen])

  // The menu covers the line. After a sign-out there is no menu.
  const hasResult = isSignedOut || others.isSuccess || hasFailed
  useEffect(() => {
    if (!hasResult) return
    if (isSignedOut) line.current?.focus()
    else if (menu.current?.contains(document.activeElement)) button.current?.focus()
    else if (document.activeElement === document.body) line.current?.focus()
    setIsOpen(false)
  }, [hasResult, isSignedOut])

  return (
    <>
      {isSignedIn && (
        // biome-ignore lint/a11y/noStaticElementInteractions: it only hears what happens in the button and the menu
        <div
          ref={menu}
          className="relative flex min-w-12 flex-1 basis-0 justify-end"
          onKeyDown={(event: KeyboardEvent) => {
            if (event.key === 'Escape' && isOpen) close()
          }}
          onBlur={({ currentTarget, relatedTarget }: FocusEvent) => {
            if (relatedTarget && !currentTarget.contains(relatedTarget)) setIsOpen(false)
          }}
        >
          <button
            ref={button}
            type="button"
            aria-expanded={isOpen}
            aria-controls={isOpen ? menuId : undefined}
            onClick={() => setIsOpen(!isOpen)}
            className="account-button"
          >
            <span className="truncate">{account ?? 'Account'}</span>
            <span aria-hidden>▾</span>
          </button>
          {isOpen && (
            <div id={menuId} className="account-menu">
              {account !== undefined && (
                <p className="px-3 py-2 text-muted wrap-anywhere">
                  {`${config.crm.name}: ${account}`}
                </p>
              )}
              <button
                type="button"
                aria-disabled={own.isPending || undefined}
                onClick={() => {
                  others.reset()
                  own.mutate()
                }}
                className="account-item"
              >
                Sign out of this browser
              </button>
              <button
                type="button"
                aria-disabled={others.isPending || undefined}
                onClick={() => {
                  own.reset()
                  others.mutate()
                }}
                className="account-item"
              >
                Sign out of all other browsers
              </button>
            </div>
          )}
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
