import { StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { ruleCatalogue } from '../../contract/rules.ts'
import { Badge } from '../../src/ui/Badge.tsx'
import { Button } from '../../src/ui/Button.tsx'
import { Card } from '../../src/ui/Card.tsx'
import { Bell, GreenCheck, RedCross, Spinner, WarningSign } from '../../src/ui/icons.tsx'
import { RuleCheckbox } from '../../src/ui/RuleCheckbox.tsx'
import { Warning } from '../../src/ui/Warning.tsx'
import { states } from './states.ts'
import '../../src/styles.css'
import './gallery.css'

/** Every state of every component side by side, each in a frame with its own backend. */
function Gallery() {
  const [width, setWidth] = useState(390)
  const [scheme, setScheme] = useState('light dark')
  return (
    <main style={{ colorScheme: scheme }}>
      <header>
        <h1>States</h1>
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
        {states.map((state, number) => (
          <li key={state.name} style={{ width }}>
            <h3>{state.name}</h3>
            <iframe
              // A frame reads its colour scheme only when it loads.
              key={scheme}
              title={state.name}
              src={`/tests/states/frame.html?state=${number}`}
              loading="lazy"
              width={width}
              height={640}
              style={{ colorScheme: scheme }}
            />
          </li>
        ))}
      </ol>
      <h2>Pieces</h2>
      <Pieces />
    </main>
  )
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
      <Warning title="A warning">What is missing, and what to do about it.</Warning>
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
