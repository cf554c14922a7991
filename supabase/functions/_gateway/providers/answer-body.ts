/** The bytes of a provider's answer. */
export type AnswerBody = {
  /** The next bytes; undefined at the end. */
  read: () => Promise<Uint8Array | undefined>;
  cancel: () => void;
  /** The first reading is of all of it. */
  atOnce: boolean;
};

/** An answer that says that it is no longer than this is read at once, in bytes. */
const longestAtOnce = 256 * 1024;
/** Many times an event; a stream's own way is to take 64 KiB for each of its readings, to be cleared and thrown away. */
const pieceBytes = 8 * 1024;

/** Opens the body of an answer: as a stream, unless it says how long it is, which to read at once takes a third of that. */
export function bodyOf(response: Response): AnswerBody {
  const { headers, body } = response;
  const length = Number(headers.get("content-length") ?? Number.NaN);
  const streamed = headers.get("content-type")?.startsWith("text/event-stream");
  return length <= longestAtOnce && !streamed
    ? wholeOf(response)
    : streamOf(body ?? new ReadableStream({ type: "bytes" }));
}

function wholeOf(response: Response): AnswerBody {
  let over = false;
  return {
    atOnce: true,
    async read() {
      if (over) return undefined;
      over = true;
      const bytes = new Uint8Array(await response.arrayBuffer());
      return bytes.byteLength > 0 ? bytes : undefined;
    },
    // The call's signal ends it.
    cancel() {},
  };
}

function streamOf(body: ReadableStream<Uint8Array>): AnswerBody {
  const reader = body.getReader({ mode: "byob" });
  return {
    atOnce: false,
    async read() {
      const { done, value } = await reader.read(new Uint8Array(pieceBytes));
      return done ? undefined : value;
    },
    cancel: () => void reader.cancel().catch(() => undefined),
  };
}
