export const Loading = () => (
  <main className="flex-1 p-4">
    <div role="status">
      <h1>Loading…</h1>
    </div>
  </main>
)
