import { once } from "node:events";
import type { Duplex } from "node:stream";
import * as zlib from "node:zlib";
import { type BodyReader, createPacedReader } from "./body-reader.ts";

/** Decoders by content coding (RFC 9110, 8.4.1). That section mentions that some servers send raw deflate. */
const decoders: Record<string, (first: Uint8Array) => Duplex> = {
  gzip: () => zlib.createGunzip(),
  "x-gzip": () => zlib.createGunzip(),
  deflate: (first) => (((first[0] ?? 0) & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw()),
  br: () => zlib.createBrotliDecompress(),
  zstd: () => zlib.createZstdDecompress(),
};
/** A server and a proxy may apply one coding each. */
const maxCodings = 2;

/**
 * Decodes a body whose provider used a content coding although the request accepted none. Each piece is decoded as it
 * arrives.
 * @param encoding the `Content-Encoding` header
 * @returns a reader that throws if the coding is unknown or the body does not follow it
 */
export function decodeBody(body: BodyReader, encoding: string | null | undefined): BodyReader {
  if (!encoding) return body;
  const codings = encoding.split(",").map((coding) => coding.trim().toLowerCase());
  const applied = codings.filter((coding) => coding !== "" && coding !== "identity");
  const isKnown = applied.length <= maxCodings && applied.every((coding) => Object.hasOwn(decoders, coding));
  return isKnown ? applied.reduceRight(decodeCoding, body) : unreadable;
}

const unreadable: BodyReader = {
  read: () => Promise.reject(new Error("the answer has an unknown content coding")),
  pipe: () => unreadable.read().then(() => false),
};

function decodeCoding(body: BodyReader, coding: string): BodyReader {
  let reader: Promise<BodyReader> | undefined;
  let failure: unknown;

  async function begin(): Promise<BodyReader> {
    const first = await body.read();
    const createDecoder = decoders[coding];
    if (!first || !createDecoder) return body;
    const decoder = createDecoder(first);
    void feed(decoder, first);
    return createPacedReader(decoder);
  }

  /** If the body fails, decodes the bytes that arrived before the failure. */
  async function feed(decoder: Duplex, first: Uint8Array): Promise<void> {
    try {
      for (let bytes: Uint8Array | undefined = first; bytes && !decoder.destroyed; bytes = await body.read()) {
        if (!decoder.write(bytes)) await once(decoder, "drain");
      }
    } catch (error) {
      failure = error;
    }
    decoder.end();
  }

  /**
   * Throws the body's failure instead of reporting that the body has ended. Some runtimes treat a truncated body as
   * complete.
   */
  function orFailure<Value>(value: Value): Value {
    if (!value && failure) throw failure;
    return value;
  }

  const open = () => {
    reader ??= begin();
    return reader;
  };
  return {
    read: async () => orFailure(await (await open()).read()),
    pipe: async (take) => orFailure(await (await open()).pipe(take)),
  };
}
