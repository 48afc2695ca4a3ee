export const Loading = () => (
  <main className="mx-auto min-h-svh w-full max-w-3xl px-4 pt-8 sm:px-6">
    <div role="status">
      <h1>Loading…</h1>
    </div>
  </main>
)
