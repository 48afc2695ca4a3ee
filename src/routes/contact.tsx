import { createFileRoute } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { useHealth } from '../api/health.ts'
import { config } from '../config.ts'
import { standInFormAt } from '../parse-config.ts'
import { Screen } from '../ui/Screen.tsx'

export const Route = createFileRoute('/contact')({ component: ContactPage })

// A form on our own origin must not have allow-same-origin: its scripts could remove the sandbox.
const isForeign =
  new URL(config.contactFormUrl, window.location.href).origin !== window.location.origin
const sandbox = `allow-forms allow-scripts${isForeign ? ' allow-same-origin' : ''}`

function ContactPage() {
  const { standIns } = useHealth().data ?? {}
  // No other backend answers at the default address. On the page's own origin, a proxy may if the backend says nothing of it.
  const isMissing =
    (config.apiUrl !== '' || standIns !== undefined) &&
    config.contactFormUrl === standInFormAt(config.apiUrl) &&
    standIns?.['contact-form'] === undefined

  const [isBlocked, setBlocked] = useState(false)
  // The page's policy allows the address of the form, but not every address to which that may redirect.
  useEffect(() => {
    const notice = ({ effectiveDirective }: SecurityPolicyViolationEvent) => {
      if (effectiveDirective === 'frame-src') setBlocked(true)
    }
    document.addEventListener('securitypolicyviolation', notice)
    return () => document.removeEventListener('securitypolicyviolation', notice)
  }, [])

  return (
    <Screen
      title="Contact Support"
      lead="Having issues with notifications or setup? Fill out the form and we'll get back to you."
    >
      {isMissing ? (
        <p>
          This site has no contact form yet. Whoever runs it can set one with VITE_CONTACT_FORM_URL.
        </p>
      ) : (
        <>
          {!isBlocked && (
            <iframe
              src={config.contactFormUrl}
              title="Contact form"
              height={600}
              sandbox={sandbox}
              referrerPolicy="no-referrer"
              className="w-full max-w-[800px] rounded-2xl bg-surface outline outline-line"
            />
          )}
          <p className={isBlocked ? '' : 'text-sm text-muted'}>
            <span>
              {isBlocked
                ? 'The form is on another site, which this page may not show: '
                : 'If you cannot see the form, '}
            </span>
            <a
              href={config.contactFormUrl}
              target="_blank"
              rel="noopener noreferrer"
              className="text-link"
            >
              open the contact form in a new tab
            </a>
            <span>.</span>
          </p>
        </>
      )}
    </Screen>
  )
}
