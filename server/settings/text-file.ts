import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** The message of each error here can follow 'FILE is …, but '. */
function readBytes(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    const { code } = Object(error)
    throw new Error(
      code === 'EISDIR' ? 'this is a folder' : `this process cannot read it (${code})`,
      { cause: error },
    )
  }
}

/** Reads a text of any editor. Windows begins UTF-16, and often UTF-8, with a byte order mark. @throws Error */
export function readText(path: string): string {
  const bytes = readBytes(path)
  const mark = bytes.subarray(0, 2).toString('hex')
  const encoding = { fffe: 'utf-16le', feff: 'utf-16be' }[mark] ?? 'utf-8'
  let text = '\0'
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch {
    // It has another encoding.
  }
  if (text.includes('\0')) throw new Error('this is no text in UTF-8. Save it in this encoding')
  return text
}

/** Reads certificates for OpenSSL. It would trust nobody if it did not understand the file. @throws Error */
export function readCertificates(path: string): string {
  const text = readBytes(path).toString()
  try {
    new X509Certificate(text).toString()
    return text
  } catch {
    throw new Error('this file has no certificate in PEM form, as text in UTF-8')
  }
}

/** A shell replaces `~/` by the home folder of its user, but not in `.env`, nor in quotes. */
export function expandHome(path: string): string {
  if (!/^~(?=$|[/\\])/.test(path)) return path
  try {
    return join(homedir(), path.slice(1))
  } catch {
    // The user has no home folder, as in some containers. Whoever uses the path says which setting has it.
    return path
  }
}
