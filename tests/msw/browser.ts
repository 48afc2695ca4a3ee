/**
 * Gives a page its answers. MSW's own worker would also get the scripts and the calls of all other pages of this
 * origin, which makes the page of all states slow, and it would stay in the browser when the development is over.
 * @param answer returns undefined for what goes to the network.
 */
export function answerFetch(answer: (request: Request) => Promise<Response | undefined>): void {
  const { fetch } = window
  window.fetch = async (input, init) => {
    const request = new Request(input, init)
    return (await answer(request)) ?? fetch(request)
  }
}
