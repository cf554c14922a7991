import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { codeOf, StackError } from "@gatehousehq/local-stack/errors";
import { nothingChanged } from "./programs.ts";

/**
 * An archive is a tar file, so that a person can use pg_restore and sha256sum on its contents. Its order lets the dump be
 * written while pg_dump runs, and makes a file that was cut off lack its checksums.
 */
const dumpName = "database.dump";
const manifestName = "manifest.json";
const sumsName = "SHA256SUMS";
const block = 512;
/** Sizes from 8 GiB on do not fit in the header's 11 octal digits. */
const maxOctalSize = 8 ** 11;

const interrupts = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

type Member = { name: string; size: number; modifiedAt: Date };

/**
 * Writes an archive to a file that only its owner can read. The file appears when it is complete.
 * @param options.describe returns the manifest's text, after the dump has ended
 * @throws StackError if the file exists
 */
export async function writeArchive(
  file: string,
  options: { dump: AsyncIterable<Buffer>; describe: () => Promise<string>; createdAt: Date },
): Promise<void> {
  const { dump, describe, createdAt: modifiedAt } = options;
  const partial = `${file}.partial`;
  const handle = await openNew(file, partial);
  // An interrupted backup leaves no data behind, and nothing in the way of the next one.
  const interrupt = (signal: NodeJS.Signals) => {
    rmSync(partial, { force: true });
    for (const each of interrupts) process.off(each, interrupt);
    process.kill(process.pid, signal);
  };
  for (const each of interrupts) process.on(each, interrupt);
  try {
    let position = block;
    const hash = createHash("sha256");
    for await (const chunk of dump) {
      hash.update(chunk);
      position += await writeAt(handle, chunk, position);
    }
    const dumped = { name: dumpName, size: position - block, modifiedAt };
    await writeAt(handle, formatHeader(dumped), 0);
    position += await writeAt(handle, paddingOf(dumped.size), position);
    const manifest = Buffer.from(await describe());
    const sums = Buffer.from(`${hash.digest("hex")}  ${dumpName}\n${sha256(manifest)}  ${manifestName}\n`);
    const rest = [
      ...[formatHeader({ name: manifestName, size: manifest.length, modifiedAt }), manifest],
      ...[paddingOf(manifest.length), formatHeader({ name: sumsName, size: sums.length, modifiedAt }), sums],
      ...[paddingOf(sums.length), Buffer.alloc(2 * block)],
    ];
    await writeAt(handle, Buffer.concat(rest), position);
    await handle.sync();
    await handle.close();
    await rename(partial, file);
  } catch (error) {
    await handle.close().catch(() => undefined);
    await rm(partial, { force: true });
    throw error;
  } finally {
    for (const each of interrupts) process.off(each, interrupt);
  }
}

async function openNew(file: string, partial: string): Promise<FileHandle> {
  // Opening reserves the name, and finds out early whether the folder can be written to.
  const existing = await open(file, "r").catch(() => undefined);
  if (existing) {
    await existing.close();
    throw new StackError(`${file} exists. Name another file, or move it.`);
  }
  try {
    return await open(partial, "wx", 0o600);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    throw new StackError(`${partial} exists: another backup writes it, or one was killed. If none runs, remove it.`);
  }
}

async function writeAt(handle: FileHandle, data: Buffer, position: number): Promise<number> {
  let written = 0;
  while (written < data.length) {
    const { bytesWritten } = await handle.write(data, written, data.length - written, position + written);
    written += bytesWritten;
  }
  return written;
}

/**
 * Returns an archive's manifest and the position of its dump, after comparing each byte with the checksums.
 * @throws StackError if the file is not a whole archive
 */
export async function readArchive(file: string): Promise<{ manifest: string; dump: { start: number; end: number } }> {
  const handle = await open(file, "r").catch((error: unknown) => {
    throw new StackError(`${file} cannot be read (${codeOf(error)}). ${nothingChanged}`);
  });
  const damaged = (fault: string) =>
    new StackError(`${file} is not a whole backup: ${fault}. ${nothingChanged} Use another copy or an earlier backup.`);
  try {
    const { size: fileSize } = await handle.stat();
    let position = 0;
    const members = new Map<string, { start: number; end: number; sha256: string }>();
    for (const name of [dumpName, manifestName, sumsName]) {
      const size = parseHeader(await readAt(handle, position, block), name);
      if (size === undefined || position + block + size > fileSize) throw damaged(`${name} is missing or cut off`);
      const start = position + block;
      const hash = createHash("sha256");
      for await (const chunk of chunksOf(handle, start, size)) hash.update(chunk);
      members.set(name, { start, end: start + size, sha256: hash.digest("hex") });
      const padding = paddingOf(size);
      position = start + size + padding.length;
      if (!padding.equals(await readAt(handle, start + size, padding.length))) throw damaged(`${name} is cut off`);
    }
    const end = await readAt(handle, position, 2 * block);
    if (!end.equals(Buffer.alloc(2 * block)) || position + end.length !== fileSize) throw damaged("its end is missing");
    const textOf = async (name: string) => {
      const { start, end } = members.get(name) ?? { start: 0, end: 0 };
      return (await readAt(handle, start, end - start)).toString("utf8");
    };
    const sums = [dumpName, manifestName].map((name) => `${members.get(name)?.sha256}  ${name}\n`).join("");
    if ((await textOf(sumsName)) !== sums) throw damaged(`its contents differ from ${sumsName}`);
    const { start = 0, end: dumpEnd = 0 } = members.get(dumpName) ?? {};
    return { manifest: await textOf(manifestName), dump: { start, end: dumpEnd } };
  } finally {
    await handle.close();
  }
}

async function* chunksOf(handle: FileHandle, start: number, size: number): AsyncGenerator<Buffer> {
  for (let read = 0; read < size; ) {
    const chunk = await readAt(handle, start + read, Math.min(1 << 20, size - read));
    if (chunk.length === 0) return;
    yield chunk;
    read += chunk.length;
  }
}

/** Returns fewer bytes at the end of the file. */
async function readAt(handle: FileHandle, position: number, size: number): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(size), 0, size, position);
  return buffer.subarray(0, bytesRead);
}

/**
 * Returns a header in the format ustar (POSIX.1-1988). Larger sizes are binary, as GNU tar and bsdtar write them
 * (https://www.gnu.org/software/tar/manual/html_node/Extensions.html).
 */
export function formatHeader({ name, size, modifiedAt }: Member): Buffer {
  const header = Buffer.alloc(block);
  header.write(name, 0);
  header.write("0000600\0", 100);
  header.write("0000000\0", 108);
  header.write("0000000\0", 116);
  if (size < maxOctalSize) header.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  else {
    header.writeUInt8(0x80, 124);
    header.writeBigUInt64BE(BigInt(size), 128);
  }
  header.write(
    `${Math.floor(modifiedAt.getTime() / 1000)
      .toString(8)
      .padStart(11, "0")}\0`,
    136,
  );
  header.write("        0", 148);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

/** Returns the member's size, or undefined if this is not a header of ours with that name. */
export function parseHeader(header: Buffer, name: string): number | undefined {
  if (header.length < block) return undefined;
  const octal = (at: number) => Number.parseInt(header.toString("latin1", at, at + 11), 8);
  const size = header[124] === 0x80 ? Number(header.readBigUInt64BE(128)) : octal(124);
  const seconds = octal(136);
  if (!Number.isSafeInteger(size) || !Number.isSafeInteger(seconds)) return undefined;
  return header.equals(formatHeader({ name, size, modifiedAt: new Date(seconds * 1000) })) ? size : undefined;
}

function paddingOf(size: number): Buffer {
  return Buffer.alloc((block - (size % block)) % block);
}

function sha256(data: Buffer): string {
  return createHash("sha256").update(data).digest("hex");
}
