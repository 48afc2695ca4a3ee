import { Component, type ReactNode } from 'react'

/** What stands in the place of what failed to render (§8). */
export const failureText = <p role="alert">Something went wrong. Please try again later.</p>

/** A part of a page. If it fails to render, the rest stays, and the next visit of the page tries again. React logs it. */
export class Boundary extends Component<{ children: ReactNode }, { hasFailed: boolean }> {
  override state = { hasFailed: false }

  static getDerivedStateFromError() {
    return { hasFailed: true }
  }

  override render() {
    return this.state.hasFailed ? failureText : this.props.children
  }
}
