import { useHealth } from '../api/health.ts'

/** Says, before anybody connects, that the page was opened at an address where connecting and saving cannot work. */
export function WrongAddress() {
  const { appUrl = '' } = useHealth().data ?? {}
  // It becomes a link, so anything but an origin counts as absent.
  if (appUrl === window.location.origin || !/^https?:\/\/[^/]+$/.test(appUrl)) return null
  return (
    <p role="alert" className="mx-auto max-w-3xl px-4 pb-4 text-bad sm:px-6">
      <span>
        Connecting and saving do not work at this address, because the server expects another one
        (its setting APP_URL).
      </span>
      <span> Open </span>
      <a href={appUrl} className="text-link wrap-anywhere">
        {appUrl}
      </a>
    </p>
  )
}
