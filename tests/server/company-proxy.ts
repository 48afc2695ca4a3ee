import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { listenInTest } from './harness.ts'

/**
 * A proxy of a company, for CORP\ann with the password pass@1. Whatever host is asked for, it connects to a port of this
 * machine.
 */
export async function openProxy(targetPort: number) {
  const asked: string[] = []
  const server = createServer().on('connect', ({ url = '', headers }, socket: Socket) => {
    const wanted = `Basic ${Buffer.from('CORP\\ann:pass@1').toString('base64')}`
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    if (headers['proxy-authorization'] !== wanted) {
      return socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    }
    asked.push(url)
    const onward = connect(targetPort, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      onward.pipe(socket).pipe(onward)
    })
    onward.on('error', () => socket.destroy())
    return onward
  })
  return { asked, port: await listenInTest(server) }
}
