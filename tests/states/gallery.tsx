import { type ComponentProps, StrictMode, useEffect, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { ruleCatalogue } from '../../contract/rules.ts'
import { RuleCheckbox } from '../../src/rules/RuleCheckbox.tsx'
import { Badge } from '../../src/ui/Badge.tsx'
import { Button } from '../../src/ui/Button.tsx'
import { Card } from '../../src/ui/Card.tsx'
import { Bell, GreenCheck, RedCross, Spinner, WarningSign } from '../../src/ui/icons.tsx'
import { Warning } from '../../src/ui/Warning.tsx'
import { slugOf, states } from './states.ts'
import '../../src/styles.css'
import './gallery.css'

/** What is after the question mark in the address: the name of one state, or nothing. */
const slug = window.location.search.slice(1)
const shown = states.map((state, number) => ({ ...state, slug: slugOf(state), number }))
const only = shown.find((state) => state.slug === slug)

/** Every state of every component side by side, each in a frame with its own backend, or one of them. */
function Gallery() {
  const [width, setWidth] = useState(only ? 1280 : 390)
  const [scheme, setScheme] = useState('light dark')
  return (
    <main style={{ colorScheme: scheme }}>
      <header>
        <h1>{only ? <a href="/tests/states/">States</a> : 'States'}</h1>
        <label>
          Width{' '}
          <select value={width} onChange={(event) => setWidth(Number(event.target.value))}>
            {[320, 390, 768, 1280].map((px) => (
              <option key={px} value={px}>
                {px} px
              </option>
            ))}
          </select>
        </label>
        <label>
          Colours{' '}
          <select value={scheme} onChange={(event) => setScheme(event.target.value)}>
            <option value="light dark">the system’s</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </label>
      </header>
      <h2>Screens</h2>
      <ol className="screens">
        {(only ? [only] : shown).map(({ name, slug, number }) => (
          <li key={name} style={{ width }}>
            <h3>
              <a href={`?${slug}`}>{name}</a>
            </h3>
            <Frame
              // A frame reads its colour scheme only when it loads.
              key={scheme}
              title={name}
              src={`/tests/states/frame.html?state=${number}`}
              width={width}
              height={640}
              // A single state fills the window, so that its lower end is visible too.
              style={{ colorScheme: scheme, ...(only && { height: 'calc(100svh - 11rem)' }) }}
            />
          </li>
        ))}
      </ol>
      {!only && (
        <>
          <h2>Pieces</h2>
          <Pieces />
        </>
      )}
    </main>
  )
}

/** A frame that loads when it comes into view. With `loading="lazy"`, a dozen more load at the same time. */
function Frame({ src, title, ...props }: ComponentProps<'iframe'>) {
  const [isSeen, setSeen] = useState(false)
  const frame = useRef<HTMLIFrameElement>(null)
  useEffect(() => {
    if (frame.current === null) return
    const observer = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) setSeen(true)
    })
    observer.observe(frame.current)
    return () => observer.disconnect()
  }, [])
  return <iframe ref={frame} title={title} src={isSeen ? src : undefined} {...props} />
}

function Pieces() {
  return (
    <div className="pieces">
      {(['primary', 'secondary'] as const).map((kind) => (
        <div key={kind} className="row">
          <Button kind={kind}>{kind}</Button>
          <Button kind={kind} busy>
            {kind}, busy
          </Button>
          <Button kind={kind} disabled>
            {kind}, disabled
          </Button>
        </div>
      ))}
      <div className="row">
        <Badge>Badge</Badge>
        <GreenCheck />
        <RedCross />
        <WarningSign />
        <Bell />
        <Spinner />
      </div>
      <Warning isShown title="A warning">
        What is missing, and what to do about it.
      </Warning>
      <Card heading="A card with the four states of a rule">
        {[true, false].flatMap((available) =>
          [true, false].map((checked) => (
            <RuleCheckbox
              key={`${available} ${checked}`}
              id={ruleCatalogue[0].rules[0].id}
              when={`${available ? 'available' : 'coming soon'}, ${checked ? 'ticked' : 'not ticked'}`}
              checked={checked}
              available={available}
              onToggle={() => {}}
            />
          )),
        )}
      </Card>
    </div>
  )
}

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no element with the id root')
createRoot(root).render(
  <StrictMode>
    <Gallery />
  </StrictMode>,
)
