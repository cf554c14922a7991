import type { BodyMemory, MemoryGrant } from "./body-memory.ts";
import { GatewayError } from "./errors.ts";
import { startTimeLimit } from "./time-limit.ts";

/** Maximum size of a body, in bytes. */
export const bodyLimits = {
  text: 8 * 1024 * 1024,
  /** Anthropic's limit (https://docs.claude.com/en/api/overview#request-size-limits). */
  messages: 32 * 1024 * 1024,
  embeddings: 1024 * 1024,
  speech: 64 * 1024,
  import: 8 * 1024,
  batch: 64 * 1024,
} as const;

const mebibyte = 1024 * 1024;

/** Bodies up to this size wait for memory only if too many of them are in use. */
const smallBytes = mebibyte / 16;

/**
 * The memory for each byte of a body: for all its forms (bytes, text, values, the text and bytes of a provider's
 * request), for its values alone, and for the bytes of a request alone. A text with a character outside Latin-1 takes
 * two bytes a character.
 */
const memoryBytesPerBodyByte = { whole: 6, values: 2, request: 1 } as const;

/** The limits of time and memory within which bodies are read. */
export type BodyLimits = {
  /** Maximum bytes of small bodies whose caller hasn't been checked, for each body and in total. */
  uncheckedEach: number;
  uncheckedAll: number;
  /** Maximum bytes of small bodies whose caller has a valid credential, for each workspace and in total. */
  workspaceAll: number;
  checkedAll: number;
  /**
   * Maximum time without new bytes. The time limit for the whole body starts at this value and grows by `msPerMebibyte`
   * for each MiB that has arrived. The time in which a body waits for memory doesn't count.
   */
  idleMs: number;
  msPerMebibyte: number;
};
const defaultLimits: BodyLimits = {
  uncheckedEach: smallBytes,
  uncheckedAll: 8 * mebibyte,
  workspaceAll: 16 * mebibyte,
  checkedAll: 24 * mebibyte,
  idleMs: 10_000,
  msPerMebibyte: 8_000,
};

/** A body that has arrived. Its memory stays counted until `release`. */
export type Body = {
  bytes: Uint8Array<ArrayBuffer>;
  /** Whether the body had to be granted memory. */
  isLarge: boolean;
  /** Frees the bytes, once only the body's values are needed. */
  discardBytes: () => void;
  /** Returns the memory of the other forms: the values for another provider request, the bytes of one being sent. */
  keepOnly: (forms: { values: boolean; request: boolean }) => void;
  /** Waits for the memory of another provider request. Returns whether it was granted. */
  resume: (signal: AbortSignal) => Promise<boolean>;
  /** Returns all memory, once nothing needs the body. Later calls do nothing. */
  release: () => void;
};
export type BodyReader = (
  request: Request,
  options: {
    limitBytes: number;
    /**
     * Checks the credential and returns the caller's workspace. Called if a body is large or there are many bodies.
     * @throws GatewayError for a bad credential
     */
    check: () => Promise<string>;
  },
) => Promise<Body>;

/**
 * Creates a function that reads bodies within limits of size and time. Small bodies are counted as they arrive, and
 * those of unchecked callers get a part of the memory. A larger body, or one beyond those limits, waits until its caller
 * is checked and its memory is granted: for its `Content-Length`, or else for the largest body of the path until its
 * end is known.
 * @throws GatewayError 408, `payload_too_large`, `service_unavailable` if no memory becomes free in time, or what
 * `check` throws
 */
export function createBodyReader(memory: BodyMemory, limits: BodyLimits = defaultLimits): BodyReader {
  const largestBytes = Math.floor(memory.totalBytes / memoryBytesPerBodyByte.whole);
  let unchecked = 0;
  let checked = 0;
  const byWorkspace = new Map<string, number>();
  let declaredBytes = 0;

  /** Tracks the memory of one small body, or of the beginning of a large one. */
  function trackSmall(check: () => Promise<string>) {
    let size = 0;
    let workspace: string | undefined;
    const count = (bytes: number) => {
      size += bytes;
      if (workspace === undefined) unchecked += bytes;
      else {
        checked += bytes;
        const all = (byWorkspace.get(workspace) ?? 0) + bytes;
        if (all > 0) byWorkspace.set(workspace, all);
        else byWorkspace.delete(workspace);
      }
    };
    const release = () => count(-size);
    async function owner(): Promise<string> {
      if (workspace !== undefined) return workspace;
      const name = await check();
      const all = size;
      release();
      workspace = name;
      count(all);
      return name;
    }
    return {
      release,
      owner,
      /** Counts bytes. Returns whether they fit among the small bodies. */
      async add(bytes: number): Promise<boolean> {
        count(bytes);
        if (workspace === undefined && unchecked > limits.uncheckedAll) await owner();
        return checked <= limits.checkedAll && (byWorkspace.get(workspace ?? "") ?? 0) <= limits.workspaceAll;
      },
    };
  }

  return async (request, options) => {
    const limitBytes = Math.min(options.limitBytes, largestBytes);
    const declared = Number(request.headers.get("content-length") ?? Number.NaN);
    if (declared > limitBytes) throw tooLarge(limitBytes);
    const memoryUse = trackSmall(options.check);
    let grant: MemoryGrant | undefined;
    async function waitForMemory(bytes: number): Promise<void> {
      const workspace = await memoryUse.owner();
      grant = await memory.grant(bytes * memoryBytesPerBodyByte.whole, { workspace, signal: request.signal });
      memoryUse.release();
    }
    // Reads a small body in one piece while the declared lengths of all bodies read this way stay within a limit.
    // Counts the bytes of other bodies as they arrive.
    const isSmall = declared <= limits.uncheckedEach && declaredBytes + declared <= limits.uncheckedAll;
    if (isSmall) declaredBytes += declared;
    try {
      let bytes: Uint8Array<ArrayBuffer>;
      if (isSmall) {
        bytes = await readWholeBody(request, { limitMs: limits.idleMs });
        if (!(await memoryUse.add(bytes.byteLength))) await waitForMemory(bytes.byteLength);
      } else {
        if (declared > limits.uncheckedEach) await waitForMemory(declared);
        bytes = await readInPieces(request, {
          limitBytes,
          length: grant && declared,
          limits,
          async add(count, size) {
            if (grant) return;
            const isBeyond = size > limits.uncheckedEach || !(await memoryUse.add(count));
            if (isBeyond) await waitForMemory(Number.isNaN(declared) ? limitBytes : declared);
          },
        });
      }
      if (bytes.byteLength > limitBytes) throw tooLarge(limitBytes);
      grant?.shrink(bytes.byteLength * memoryBytesPerBodyByte.whole);
      return grant ? largeBody(bytes, grant) : smallBody(bytes, memoryUse.release);
    } catch (error) {
      memoryUse.release();
      grant?.release();
      if (error instanceof GatewayError) throw error;
      throw new GatewayError("invalid_request", { message: "The body did not arrive whole." });
    } finally {
      if (isSmall) declaredBytes -= declared;
    }
  };
}

function smallBody(bytes: Uint8Array<ArrayBuffer>, release: () => void): Body {
  let isReleased = false;
  return {
    bytes,
    isLarge: false,
    discardBytes() {},
    keepOnly() {},
    resume: async () => true,
    release() {
      if (!isReleased) release();
      isReleased = true;
    },
  };
}

function largeBody(bytes: Uint8Array<ArrayBuffer>, grant: MemoryGrant): Body {
  const size = bytes.byteLength;
  return {
    bytes,
    isLarge: true,
    discardBytes: () => detachBuffer(bytes),
    keepOnly({ values, request }) {
      grant.shrink(
        size * ((values ? memoryBytesPerBodyByte.values : 0) + (request ? memoryBytesPerBodyByte.request : 0)),
      );
    },
    resume: (signal) =>
      grant.grow(size * memoryBytesPerBodyByte.whole, signal).then(
        () => true,
        () => false,
      ),
    release() {
      detachBuffer(bytes);
      grant.release();
    },
  };
}

/** Reads a body with a small Content-Length in one piece, which costs less than streaming. HTTP enforces the length. */
async function readWholeBody(request: Request, { limitMs }: { limitMs: number }): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await withTimeLimit(limitMs, request.arrayBuffer()));
}

/**
 * @param options.length the number of bytes, if they have memory already
 * @param options.add counts the next bytes and the size so far, and waits until they have memory
 */
async function readInPieces(
  request: Request,
  {
    limitBytes,
    length,
    limits,
    add,
  }: {
    limitBytes: number;
    length: number | undefined;
    limits: BodyLimits;
    add: (count: number, size: number) => Promise<void>;
  },
): Promise<Uint8Array<ArrayBuffer>> {
  const reader = request.body?.getReader();
  const whole = length === undefined ? undefined : new Uint8Array(length);
  const chunks: Uint8Array[] = [];
  let size = 0;
  let startedAt = performance.now();
  try {
    for (;;) {
      const remainingMs = startedAt + limits.idleMs + (size / mebibyte) * limits.msPerMebibyte - performance.now();
      const next = reader && (await withTimeLimit(Math.min(limits.idleMs, remainingMs), reader.read()));
      if (!next || next.done) return whole ? whole.subarray(0, size) : concatBytes(chunks, size);
      const from = size;
      size += next.value.byteLength;
      if (size > (length ?? limitBytes)) throw tooLarge(length ?? limitBytes);
      if (whole) {
        whole.set(next.value, from);
        detachBuffer(next.value);
      } else {
        const arrivedAt = performance.now();
        await add(next.value.byteLength, size);
        startedAt += performance.now() - arrivedAt;
        chunks.push(next.value);
      }
    }
  } catch (error) {
    reader?.cancel().catch(() => {});
    throw error;
  }
}

/** Detaches a buffer, which frees it now instead of at a later garbage collection. Leaves out parts of larger buffers. */
function detachBuffer({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength > 0 && byteLength === buffer.byteLength) buffer.transfer(0);
}

function withTimeLimit<Result>(limitMs: number, work: Promise<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    const limit = startTimeLimit(limitMs, () =>
      reject(new GatewayError("invalid_request", { status: 408, message: "The body did not arrive in time." })),
    );
    work.then(resolve, reject).finally(limit.end);
  });
}

function tooLarge(limitBytes: number): GatewayError {
  return new GatewayError("payload_too_large", { message: `The body may have ${limitBytes} bytes at most.` });
}

/** Joins chunks whose total size is `size`. */
export function concatBytes(chunks: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return whole;
}
