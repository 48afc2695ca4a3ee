import { buttonStyle } from './button-style.ts'

export function Footer() {
  return (
    <footer className="border-t border-line">
      <div className="mx-auto flex w-full max-w-3xl flex-wrap items-center justify-between gap-3 px-4 py-6 sm:px-6">
        <p className="text-muted">Need Help?</p>
        <a href="/contact" target="_blank" rel="noopener" className={buttonStyle.secondary}>
          Contact Support
        </a>
      </div>
    </footer>
  )
}
