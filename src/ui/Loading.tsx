export const Loading = () => (
  <main className="min-h-svh p-4">
    <div role="status">
      <h1>Loading…</h1>
    </div>
  </main>
)
