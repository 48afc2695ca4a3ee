import fs from 'node:fs'
import { chmod, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { logTo } from '../../server/log.ts'
import { createVault, keyFromFolder, VaultError } from '../../server/people/vault.ts'
import { newFolder } from '../database.ts'

const oldKey = Buffer.alloc(32, 1)
const newKey = Buffer.alloc(32, 2)
const vault = createVault([newKey])
const row = 'connections.secrets:user:hubspot'

describe('a sealed value', () => {
  test('that 0.1.0 has sealed opens', () => {
    const sealed =
      'v1.8aca2b9bcc9a.EvyvnqLzlYelU5zG.IMLtrxKO660ayIAFthMnhQ.eNpUYDDM3DOx61sJFmIjKoUiZdD2GyoXJ49h'
    expect(vault.open(sealed, row)).toBe('token of an earlier release')
    expect(vault.holdsKeyOf(sealed)).toBe(true)
    expect(vault.isNewest(sealed)).toBe(true)
  })

  test('does not open in another row', () => {
    const sealed = vault.seal('token', row)
    expect(() => vault.open(sealed, 'connections.secrets:user:slack')).toThrow(VaultError)
    expect(() => vault.open(sealed, 'connections.secrets:other:hubspot')).toThrow(VaultError)
  })

  test('does not open when a part of it was altered or cut', () => {
    const parts = vault.seal('token', row).split('.')
    for (const [index, part] of parts.entries()) {
      const other = `${part.startsWith('A') ? 'B' : 'A'}${part.slice(1)}`
      for (const altered of [other, part.slice(0, -2), '']) {
        const sealed = parts.with(index, altered).join('.')
        expect(() => vault.open(sealed, row), sealed).toThrow(VaultError)
      }
    }
    // A tag of four bytes can be guessed.
    const cut = Buffer.from(parts[3] ?? '', 'base64url')
      .subarray(0, 4)
      .toString('base64url')
    expect(() => vault.open(parts.with(3, cut).join('.'), row)).toThrow(VaultError)
  })

  test('opens only with its key, also if that is an older one; the newest seals', () => {
    const sealed = createVault([oldKey]).seal('token', row)
    expect(() => vault.open(sealed, row)).toThrow(VaultError)
    expect(vault.holdsKeyOf(sealed)).toBe(false)
    const rotated = createVault([newKey, oldKey])
    expect(rotated.open(sealed, row)).toBe('token')
    expect(vault.open(rotated.seal('token', row), row)).toBe('token')
    // What the older key made is to be sealed anew; what the newest made is not.
    expect(rotated.holdsKeyOf(sealed)).toBe(true)
    expect(rotated.isNewest(sealed)).toBe(false)
    expect(rotated.isNewest(rotated.seal('token', row))).toBe(true)
  })
})

const folder = await newFolder()

describe('the key in the data folder', () => {
  test('is made once, for its owner’s eyes, also by ten who ask at once', async () => {
    const data = join(folder, 'new')
    const keys = await Promise.all(Array.from({ length: 10 }, () => keyFromFolder(data)))
    expect(new Set(keys.map((key) => key.toString('hex'))).size).toBe(1)
    expect(keys[0]).toHaveLength(32)
    const path = join(data, 'encryption.key')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await readdir(data)).toEqual(['encryption.key'])
  })

  test('that others can read is reported and used', async () => {
    const data = join(folder, 'open')
    const log = vi.fn()
    const key = await keyFromFolder(
      data,
      logTo((_level, ...line) => log(...line)),
    )
    expect(log).not.toHaveBeenCalled()
    const path = join(data, 'encryption.key')
    for (const mode of [0o640, 0o604]) {
      await chmod(path, mode)
      expect(
        await keyFromFolder(
          data,
          logTo((_level, ...line) => log(...line)),
        ),
      ).toEqual(key)
      expect(log).toHaveBeenLastCalledWith('others can read the encryption key', {
        path,
        remedy: `chmod 600 ${path}`,
      })
    }
    expect(log).toHaveBeenCalledTimes(2)
  })

  test('is made on a disk without links, and read from one that cannot be written', async () => {
    const refuse = (name: 'link' | 'writeFile', code: string) => {
      const spy = vi
        .spyOn(fs.promises, name)
        .mockRejectedValue(Object.assign(new Error(), { code }))
      syncBuiltinESMExports()
      onTestFinished(() => {
        spy.mockRestore()
        syncBuiltinESMExports()
      })
    }
    const data = await newFolder()
    refuse('link', 'EPERM')
    const key = await keyFromFolder(data)
    expect(await readdir(data)).toEqual(['encryption.key'])
    refuse('writeFile', 'EROFS')
    expect(await keyFromFolder(data)).toEqual(key)
  })

  test('is refused when it is 32 times the same byte', async () => {
    const placeholder = await newFolder()
    await writeFile(join(placeholder, 'encryption.key'), Buffer.alloc(32, 7).toString('base64'))
    await expect(keyFromFolder(placeholder)).rejects.toThrow(/encryption\.key is not random/)
  })

  test('is not replaced when it is broken', async () => {
    const path = join(folder, 'encryption.key')
    await writeFile(path, 'too short')
    await expect(keyFromFolder(folder)).rejects.toThrow(/encryption\.key does not hold 32 bytes/)
    expect(await readFile(path, 'utf8')).toBe('too short')
  })
})
