import { createCipheriv, createDecipheriv, createHash, randomBytes, randomUUID } from 'node:crypto'
import { constants, existsSync } from 'node:fs'
import { copyFile, link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode, type Log } from '../log.ts'

export class VaultError extends Error {}

export type Vault = ReturnType<typeof createVault>

/**
 * AES-256-GCM with the newest key. Values are `v1.{key id}.{iv}.{tag}.{ciphertext}` in base64url.
 */
export function createVault(keys: readonly Buffer[]) {
  const byId = new Map(keys.map((key) => [keyId(key), key]))
  const newest = keys[0]
  if (newest === undefined) throw new VaultError('A vault needs a key.')

  return {
    /** @param row names the row and column of the value, which does not open in another row. */
    seal(plaintext: string, row: string): string {
      const iv = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', newest, iv)
      cipher.setAAD(Buffer.from(row))
      const ciphertext = Buffer.concat([cipher.update(Buffer.from(plaintext)), cipher.final()])
      const parts = [iv, cipher.getAuthTag(), ciphertext].map((part) => part.toString('base64url'))
      return ['v1', keyId(newest), ...parts].join('.')
    },
    /** @throws VaultError if the key is unknown, or the value was altered or moved. */
    open(sealed: string, row: string): string {
      if (partOf(sealed, 0) !== 'v1') throw new VaultError('This is not a sealed value.')
      const key = byId.get(partOf(sealed, 1))
      if (key === undefined) throw new VaultError('No key here made this value.')
      try {
        const bytesOf = (index: number) => Buffer.from(partOf(sealed, index), 'base64url')
        // Without authTagLength, Node accepts a tag of 4 bytes, which an attacker can guess.
        const decipher = createDecipheriv('aes-256-gcm', key, bytesOf(2), { authTagLength: 16 })
        decipher.setAAD(Buffer.from(row))
        decipher.setAuthTag(bytesOf(3))
        const opened = decipher.update(bytesOf(4))
        return Buffer.concat([opened, decipher.final()]).toString('utf8')
      } catch {
        throw new VaultError('This value, or the row it stands in, was altered.')
      }
    },
    /** False if none of our keys sealed this value. The server then does not start. */
    holdsKeyOf: (sealed: string) => byId.has(partOf(sealed, 1)),
    /** False if an older key sealed this value. The server then seals it again. */
    isNewest: (sealed: string) => partOf(sealed, 1) === keyId(newest),
  }
}

function partOf(sealed: string, index: number): string {
  return sealed.split('.')[index] ?? ''
}

/** Returns a name for a key that reveals nothing about the key. */
export function keyId(key: Buffer): string {
  return createHash('sha256').update('dealbell key id').update(key).digest('hex').slice(0, 12)
}

/** True for 32 zeros, for example. A random key with 32 equal bytes does not occur. */
export function isPlaceholder(key: Buffer): boolean {
  return new Set(key).size === 1
}

/**
 * Reads the key in `folder`, or makes it. Two processes that make it at once get the same key.
 * @param log gets a warning if other users of this machine can read the file.
 */
export async function keyFromFolder(folder: string, log?: Log): Promise<Buffer> {
  const path = join(folder, 'encryption.key')
  if (!existsSync(path)) await makeKey(path)
  // Decoding base64 ignores the line break.
  const key = Buffer.from(await readFile(path, 'utf8'), 'base64')
  if (key.length !== 32) throw new VaultError(`${path} does not hold 32 bytes in base64.`)
  if (isPlaceholder(key)) {
    throw new VaultError(
      `${path} is not random: all 32 bytes are the same. Restore the key that encrypted the connections. If there are none, remove the file.`,
    )
  }
  // Windows has no such bits.
  if (process.platform !== 'win32' && ((await stat(path)).mode & 0o044) !== 0) {
    log?.warn('others can read the encryption key', { path, remedy: `chmod 600 ${path}` })
  }
  return key
}

async function makeKey(path: string): Promise<void> {
  const ours = `${path}.${randomUUID()}`
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await writeFile(ours, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flush: true })
    // A link appears complete or not at all, and it never replaces an existing key.
    await link(ours, path).catch(async (error: unknown) => {
      // FAT and exFAT have no links. A cut copy is refused at the next start, and nothing was sealed with it.
      if (!['EPERM', 'ENOSYS', 'ENOTSUP'].includes(errorCode(error) ?? '')) throw error
      await copyFile(ours, path, constants.COPYFILE_EXCL)
    })
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  } finally {
    await rm(ours, { force: true })
  }
}
