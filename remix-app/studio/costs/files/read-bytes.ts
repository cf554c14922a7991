import { createHash } from "node:crypto";
import { pipeline, Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { createGunzip } from "node:zlib";
import { UnreadableCostFile } from "./cost-file.ts";

/** A file in chunks or as a whole. */
export type FileBytes = AsyncIterable<Uint8Array> | Uint8Array;

/** Enough to detect the format from the columns. */
const headBytes = 64 * 1024;

/**
 * Reads a file as text, and decompresses gzip.
 * @param options.maxBytes the maximum size when unpacked
 * @returns the beginning of the text, the whole text, and the file's SHA-256 in hex once the text is read
 * @throws UnreadableCostFile
 */
export async function readText(
  bytes: FileBytes,
  { maxBytes }: { maxBytes: number },
): Promise<{ head: string; text: AsyncGenerator<string>; sha256: () => string }> {
  const hash = createHash("sha256");
  const parts = hashed(bytes instanceof Uint8Array ? partsOf(bytes) : bytes, hash);
  const raw = await readHead(parts);
  refuseOtherFiles(raw.head);
  const unpacked = raw.head[0] === 0x1f && raw.head[1] === 0x8b ? gunzip(raw.all()) : raw.all();
  const { head, all } = await readHead(limited(unpacked, maxBytes));
  refuseOtherFiles(head);
  const encoding =
    head[0] === 0xff && head[1] === 0xfe ? "utf-16le" : head[0] === 0xfe && head[1] === 0xff ? "utf-16be" : "utf-8";
  const start = new TextDecoder(encoding).decode(head, { stream: true });
  return { head: start, text: decoded(all(), encoding), sha256: () => hash.digest("hex") };
}

/** Splits a file in memory into chunks, so that other work of the process can run in between. */
async function* partsOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += headBytes) {
    yield bytes.subarray(at, at + headBytes);
    await setImmediate();
  }
}

async function* hashed(parts: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>) {
  for await (const part of parts) {
    hash.update(part);
    yield part;
  }
}

async function readHead(
  parts: AsyncGenerator<Uint8Array>,
): Promise<{ head: Uint8Array; all: () => AsyncGenerator<Uint8Array> }> {
  let head: Uint8Array = new Uint8Array();
  let ended = false;
  while (head.length < headBytes && !ended) {
    const { done, value } = await parts.next();
    if (done) ended = true;
    else head = Buffer.concat([head, value]);
  }
  return {
    head,
    async *all() {
      yield head;
      yield* parts;
    },
  };
}

async function* limited(parts: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const part of parts) {
    size += part.length;
    if (size > maxBytes) {
      const limit = `${Math.floor(maxBytes / 1024 / 1024)} MiB`;
      throw new UnreadableCostFile(
        `The file is larger than ${limit} when unpacked. Export a shorter range, or ask the platform’s operator to run npm run gatehouse -- import-costs.`,
      );
    }
    yield part;
  }
}

async function* gunzip(parts: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  const unzip = createGunzip();
  let failure: unknown;
  pipeline(Readable.from(parts), unzip, (error) => {
    failure = error;
  });
  try {
    yield* unzip;
  } catch (error) {
    const { code } = (failure ?? error) as { code?: string };
    if (!code?.startsWith("Z_")) throw error;
    throw new UnreadableCostFile(
      code === "Z_BUF_ERROR"
        ? "The compressed file is incomplete. Download it again."
        : "The compressed file is damaged. Download it again.",
    );
  }
}

async function* decoded(parts: AsyncIterable<Uint8Array>, encoding: string): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  const decode = (part?: Uint8Array) => {
    try {
      return part ? decoder.decode(part, { stream: true }) : decoder.decode();
    } catch {
      throw new UnreadableCostFile("The file isn’t UTF-8 text, or it’s incomplete. Import it as it was downloaded.");
    }
  };
  for await (const part of parts) yield decode(part);
  yield decode();
}

const otherFiles: readonly [start: string, what: string][] = [
  ["PK\u0003\u0004", "a ZIP archive or a workbook. Unpack it, or save the sheet as CSV"],
  ["PAR1", "a Parquet file. Choose CSV as the export format"],
  ["%PDF", "a PDF. Import a cost export instead, or enter the invoice by hand"],
  ["<", "a web page or XML. Download the export as CSV or JSON"],
  ["\u00d0\u00cf\u0011\u00e0", "an old Excel workbook. Save the sheet as CSV"],
  ["Obj\u0001", "an Avro file. Choose CSV or JSON as the export format"],
];

function refuseOtherFiles(head: Uint8Array): void {
  const start = String.fromCharCode(...head.subarray(0, 8)).trimStart();
  if (head.length === 0) throw new UnreadableCostFile("The file is empty. Download it again.");
  const other = otherFiles.find(([first]) => start.startsWith(first));
  if (other) throw new UnreadableCostFile(`The file is ${other[1]}.`);
}
