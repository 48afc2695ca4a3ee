import { useId, useRef } from 'react'
import { useKnownStatus } from '../api/connections.ts'
import type { ApiError } from '../api/errors.ts'
import { useHasNotice, usePerson } from '../api/person.ts'
import { useEndOtherSessions, useEndSession } from '../api/session.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { focusInPlace } from '../ui/focus.ts'
import { ended } from '../ui/words.ts'

/**
 * The menu at the end of the header, which signs out this browser, or all others of the same user. The line below the
 * header says the result. It stays after a sign-out.
 */
export function AccountMenu() {
  const crm = useKnownStatus(config.crm)
  const account = crm.data?.account
  const person = usePerson()
  const own = useEndSession()
  const others = useEndOtherSessions()
  const menuId = useId()
  const menu = useRef<HTMLDivElement>(null)
  const isSignedOut = useHasNotice('signed out')
  const failure = others.error ?? (isSignedOut ? null : own.error)
  // It covers the line. The focus goes back to its button.
  const close = () => menu.current?.hidePopover()

  return (
    <>
      {crm.isFetched && person !== 'nobody' && (
        <div className="flex min-w-12 flex-1 basis-0 justify-end">
          <button
            type="button"
            popoverTarget={menuId}
            className="-mr-2 flex min-h-9 max-w-full cursor-pointer items-center gap-1.5 rounded-lg border border-transparent px-2 text-sm font-semibold text-muted hover:text-ink has-[+:popover-open]:bg-canvas has-[+:popover-open]:text-ink pointer-coarse:min-h-11"
          >
            {account !== undefined && (
              <bdi className="truncate max-[22.5rem]:hidden">{account}</bdi>
            )}
            <span className={account === undefined ? '' : 'min-[22.5rem]:hidden'}>Account</span>
            <span aria-hidden>▾</span>
          </button>
          {/* The browser shows the menu above everything. So its place is one on the page: below the header's first
              line, as far to the right as its content. */}
          {/* biome-ignore lint/a11y/noStaticElementInteractions: it only hears what leaves it. */}
          <div
            ref={menu}
            id={menuId}
            popover="auto"
            className="absolute inset-auto top-13 right-[max(1rem,50%-22.5rem)] m-0 w-64 max-w-[calc(100vw-2rem)] flex-col rounded-xl border border-edge bg-surface p-1 text-sm text-ink shadow-lg open:flex"
            onBlur={({ relatedTarget }) => {
              // A click on the button of the menu closes it.
              if (relatedTarget?.closest('[popover], [popovertarget]') === null) close()
            }}
          >
            {account !== undefined && (
              <p className="px-3 py-2 text-muted wrap-anywhere">
                <span>{`${config.crm.name}: `}</span>
                <bdi>{account}</bdi>
              </p>
            )}
            <Button
              kind="item"
              onClick={() => {
                close()
                others.reset()
                own.mutate()
              }}
            >
              Sign out of this browser
            </Button>
            <Button
              kind="item"
              onClick={() => {
                close()
                own.reset()
                others.mutate()
              }}
            >
              Sign out of all other browsers
            </Button>
          </div>
        </div>
      )}
      {/* It is always there, because screen readers announce only what changes in it. */}
      <p
        role="status"
        // Screen readers do not announce what a page begins with.
        ref={isSignedOut ? focusInPlace : null}
        tabIndex={-1}
        className="w-full rounded-sm pb-3 text-sm empty:absolute empty:w-0"
      >
        {own.isPending || others.isPending
          ? 'Signing out…'
          : isSignedOut
            ? `Signed out. Connect ${config.crm.name} to find your settings again.`
            : others.isSuccess
              ? 'Signed out of all other browsers.'
              : failure && failureOf(failure)}
      </p>
    </>
  )
}

/** The sentence of a backend that refuses says what to do. */
const failureOf = ({ code, message }: ApiError): string =>
  code === undefined
    ? '❌ Failed to sign out, try again.'
    : `❌ Failed to sign out. ${ended(message)}`
