import { Buffer } from "node:buffer";
import type { Readable } from "node:stream";

/** Takes the next bytes. @returns whether to pass more bytes */
export type Take = (bytes: Uint8Array) => boolean;

/** Reads the bytes of a provider's answer. */
export type BodyReader = {
  /**
   * Returns the next bytes, or undefined at the end.
   * @throws Error if the answer was cut off or can't be decoded
   */
  read: () => Promise<Uint8Array | undefined>;
  /**
   * Passes bytes to `take` as they arrive until `take` wants no more. Avoids creating a promise for each piece.
   * @returns whether more bytes may follow
   * @throws Error as `read` does
   */
  pipe: (take: Take) => Promise<boolean>;
};

/** The number of bytes that may wait to be read before the connection is paused. */
const maxBufferedBytes = 64 * 1024;

/** Creates a reader that consumes a body at its caller's pace. */
export function createPacedReader(body: Readable): BodyReader {
  let chunks: Uint8Array[] = [];
  let bufferedBytes = 0;
  let ended = false;
  let failure: Error | undefined;
  let wake: (() => void) | undefined;
  const wakeReader = () => {
    wake?.();
    wake = undefined;
  };
  body.on("data", (bytes: Uint8Array<ArrayBuffer>) => {
    // Converts the Buffer to a plain Uint8Array, because slices of a Buffer share its memory and searching a Buffer is
    // slower.
    chunks.push(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    bufferedBytes += bytes.byteLength;
    if (bufferedBytes > maxBufferedBytes) body.pause();
    wakeReader();
  });
  body.on("end", () => {
    ended = true;
    wakeReader();
  });
  body.on("error", (error) => {
    failure ??= error;
    wakeReader();
  });
  body.on("close", () => {
    if (!ended) failure ??= new Error("the answer was cut");
    wakeReader();
  });

  /** Returns all bytes that have arrived, in one piece. */
  function takeAll(first: Uint8Array): Uint8Array {
    const all = chunks.length === 1 ? first : Buffer.concat(chunks);
    chunks = [];
    bufferedBytes = 0;
    return new Uint8Array(all.buffer, all.byteOffset, all.byteLength);
  }

  return {
    async read() {
      for (;;) {
        const bytes = chunks.shift();
        if (bytes) {
          bufferedBytes -= bytes.byteLength;
          return bytes;
        }
        if (ended) return undefined;
        if (failure) throw failure;
        if (body.isPaused()) body.resume();
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    pipe(take) {
      return new Promise<boolean>((resolve, reject) => {
        // One packet may hold several pieces. They are passed on together.
        const flowSoon = () => queueMicrotask(flow);
        function flow(): void {
          try {
            const [first] = chunks;
            if (first && !take(takeAll(first))) resolve(true);
            else if (ended) resolve(false);
            else if (failure) reject(failure);
            else {
              if (body.isPaused()) body.resume();
              wake = flowSoon;
            }
          } catch (error) {
            reject(error);
          }
        }
        flow();
      });
    },
  };
}
