import { type ComponentProps, StrictMode, useEffect, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { states } from './states.ts'
import '../../src/styles.css'
import './gallery.css'

/** What is after the question mark in the address: the name of one state, or nothing. */
const slug = window.location.search.slice(1)
const shown = states.map(({ name }, number) => {
  return { name, number, slug: name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-') }
})
const only = shown.find((state) => state.slug === slug)

/** Every state of every component side by side, each in a frame with its own backend, or one of them. */
function Gallery() {
  return (
    <main>
      <h1>{only ? <a href="/tests/states/">States</a> : 'States'}</h1>
      <ol>
        {(only ? [only] : shown).map(({ name, slug, number }) => (
          <li key={name}>
            <h2>
              <a href={`?${slug}`}>{name}</a>
            </h2>
            <Frame
              className={only && 'only'}
              title={name}
              src={`/tests/states/frame.html?state=${number}`}
            />
          </li>
        ))}
      </ol>
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

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no element with the id root')
createRoot(root).render(
  <StrictMode>
    <Gallery />
  </StrictMode>,
)
