import { createServer, type Server } from 'node:http'
import { expect } from '@playwright/test'
import { listen } from '../server/harness.ts'
import { test } from './server.ts'

const workerScript = `
  self.addEventListener('install', () => self.skipWaiting())
  self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()))
  self.addEventListener('fetch', (event) => {
    const headers = { 'Content-Type': 'text/html' }
    event.respondWith(new Response('<h1>Another project</h1>', { headers }))
  })`

/** A project whose service worker answers every request of its origin. */
function openProject(workerPath: string): Server {
  return createServer(({ url }, response) => {
    if (url === workerPath) {
      response.setHeader('Content-Type', 'text/javascript')
      response.setHeader('Service-Worker-Allowed', '/')
      response.end(workerScript)
      return
    }
    response.setHeader('Content-Type', 'text/html')
    response.end(`<script>
      navigator.serviceWorker.register('${workerPath}', { scope: '/' })
      navigator.serviceWorker.addEventListener('controllerchange', () => { document.title = 'taken' })
    </script>`)
  })
}

// At the address of a page, of a file, and of an API.
const paths = ['/static/js/worker.js', '/service-worker.js @all', '/api/worker @all']
for (const path of paths) {
  const workerPath = path.replace(' @all', '')
  test(`a service worker of another project ends at the first visit: ${path} @all`, async ({
    page,
    server,
  }) => {
    const project = openProject(workerPath)
    const port = await listen(project)
    const url = `http://localhost:${port}`
    await page.goto(url)
    await expect(page).toHaveTitle('taken')
    project.closeAllConnections()
    project.close()
    await server.moveTo(url)
    await page.goto(url)
    await expect(page.getByRole('button', { name: 'Connect HubSpot' })).toBeVisible()
    expect(await page.evaluate(() => navigator.serviceWorker.getRegistrations())).toEqual([])
    await page.goto(`${url}/contact`)
    await expect(page.getByRole('heading', { name: 'Contact Support' })).toBeVisible()
  })
}
