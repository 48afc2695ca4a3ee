import { Hono } from 'hono'
import { html } from 'hono/html'
import { standInPage } from './page.ts'

const notice = 'This form plays an external contact form; what you write is thrown away.'

/** The form that /contact shows in its frame if VITE_CONTACT_FORM_URL is not set. */
export function createContactForm(): Hono {
  return new Hono()
    .get('/', (c) =>
      c.html(
        standInPage({
          title: 'Contact form',
          notice,
          children: html`
            <form method="post">
              <label>Your name
                <input name="name" autocomplete="name" required>
              </label>
              <label>E-mail address
                <input name="email" type="email" autocomplete="email" required>
              </label>
              <label>How can we help?
                <textarea name="message" required></textarea>
              </label>
              <div class="actions"><button>Send</button></div>
            </form>`,
        }),
      ),
    )
    .post('/', (c) =>
      c.html(
        standInPage({
          title: 'Thank you',
          notice,
          children: html`
            <p role="status">Your message reached the stand-in form. A real one would answer you.</p>
            <p><a href="/sandbox/contact-form">Write another message</a></p>`,
        }),
      ),
    )
}
