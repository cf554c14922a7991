import { isEncoded } from "../../_shared/content-coding.ts";
import { isStorableJson, jsonStructureFault } from "../../_shared/json-limits.ts";
import { startTimeLimit } from "../time-limit.ts";
import { GatewayError } from "./errors.ts";
import { parseWithSource } from "./source-json.ts";

/** Maximum size of a body, in bytes. */
export const bodyLimits = {
  text: 8 * 1024 * 1024,
  embeddings: 1024 * 1024,
  speech: 64 * 1024,
  import: 8 * 1024,
  batch: 64 * 1024,
} as const;

/** Real chats stay below these limits. */
const maxDepth = 65;
const maxMembers = 5_000;
/**
 * The maximum number of values for each MiB of a body, and of smaller bodies. Reading a value takes up to a
 * microsecond, during which an isolate serves no other call.
 */
const valuesPerMebibyte = 30_000;

const utf8 = new TextDecoder("utf-8", { fatal: true });
const mebibyte = 1024 * 1024;

/**
 * The memory that bodies may use in an isolate. Each body is held as bytes, as text and as values, and Supabase ends an
 * isolate that exceeds 256 MB.
 */
export type BodyBudget = {
  /** Maximum bytes of bodies whose caller hasn't been checked, for each body and in total. */
  uncheckedEach: number;
  uncheckedAll: number;
  /** Maximum bytes of bodies whose caller has a valid credential, for each workspace and in total. */
  workspaceAll: number;
  checkedAll: number;
  /**
   * Maximum time without new bytes. The time limit for the whole body starts at this value and grows by `msPerMebibyte`
   * for each MiB that has arrived.
   */
  idleMs: number;
  msPerMebibyte: number;
};
const defaultBudget: BodyBudget = {
  uncheckedEach: mebibyte / 16,
  uncheckedAll: 8 * mebibyte,
  workspaceAll: 16 * mebibyte,
  checkedAll: 24 * mebibyte,
  idleMs: 10_000,
  msPerMebibyte: 8_000,
};

export type Body = {
  bytes: Uint8Array<ArrayBuffer>;
  /** Releases the memory counted for the body. */
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
 * Creates a function that reads bodies within limits of size and time. It counts the bytes that have actually arrived,
 * independently of `Content-Length`, for each body and in total. Bodies of unchecked callers get a small part of the
 * memory, and no workspace gets all of it.
 * @throws GatewayError 408, `payload_too_large`, `service_unavailable` before memory runs out, or what `check` throws
 */
export function createBodyReader(budget: BodyBudget = defaultBudget): BodyReader {
  let unchecked = 0;
  let checked = 0;
  const byWorkspace = new Map<string, number>();
  let announced = 0;

  /** Tracks the memory that one body uses. */
  function hold(check: () => Promise<string>) {
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
    return {
      release,
      async add(bytes: number) {
        count(bytes);
        if (workspace === undefined && (size > budget.uncheckedEach || unchecked > budget.uncheckedAll)) {
          const owner = await check();
          const all = size;
          release();
          workspace = owner;
          count(all);
        }
        if (checked > budget.checkedAll || (byWorkspace.get(workspace ?? "") ?? 0) > budget.workspaceAll) {
          throw new GatewayError("service_unavailable", { headers: { "retry-after": "1" } });
        }
      },
    };
  }

  return async (request, { limitBytes, check }) => {
    const declared = Number(request.headers.get("content-length") ?? Number.NaN);
    if (declared > limitBytes) throw tooLarge(limitBytes);
    const held = hold(check);
    // Reads a small body in one piece while the declared lengths of all bodies read this way stay within a limit.
    // Counts the bytes of other bodies as they arrive.
    const small = declared <= budget.uncheckedEach && announced + declared <= budget.uncheckedAll;
    if (small) announced += declared;
    try {
      const bytes = small
        ? await readAtOnce(request, { held, limitMs: budget.idleMs })
        : await readInPieces(request, { limitBytes, held, budget });
      if (bytes.byteLength > limitBytes) throw tooLarge(limitBytes);
      return { bytes, release: held.release };
    } catch (error) {
      held.release();
      if (error instanceof GatewayError) throw error;
      throw invalid("The body did not arrive whole.");
    } finally {
      if (small) announced -= declared;
    }
  };
}

type Held = { add: (bytes: number) => Promise<void>; release: () => void };

/** Reads a body with a small Content-Length in one piece, which costs less than streaming. HTTP enforces the length. */
async function readAtOnce(
  request: Request,
  { held, limitMs }: { held: Held; limitMs: number },
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(await within(limitMs, request.arrayBuffer()));
  await held.add(bytes.byteLength);
  return bytes;
}

async function readInPieces(
  request: Request,
  { limitBytes, held, budget }: { limitBytes: number; held: Held; budget: BodyBudget },
): Promise<Uint8Array<ArrayBuffer>> {
  const reader = request.body?.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const startedAt = performance.now();
  try {
    for (;;) {
      const remainingMs = startedAt + budget.idleMs + (size / mebibyte) * budget.msPerMebibyte - performance.now();
      const next = reader && (await within(Math.min(budget.idleMs, remainingMs), reader.read()));
      if (!next || next.done) return concat(chunks, size);
      size += next.value.byteLength;
      if (size > limitBytes) throw tooLarge(limitBytes);
      await held.add(next.value.byteLength);
      chunks.push(next.value);
    }
  } catch (error) {
    reader?.cancel().catch(() => {});
    throw error;
  }
}

function within<Result>(limitMs: number, work: Promise<Result>): Promise<Result> {
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

function concat(chunks: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return whole;
}

/**
 * Parses a JSON body. Requires UTF-8, limits depth and the number of values, and rejects NUL characters and lone
 * surrogates, which Postgres and some providers don't accept.
 * @param options.parse throws the same errors as `JSON.parse`; the default keeps the source text of values
 * @param options.maxNumbers how many plain numbers in lists don't count as values
 * @throws GatewayError 415, `invalid_json` or `invalid_request`
 */
export function parseJson(
  request: Request,
  body: Uint8Array,
  { parse = parseWithSource, maxNumbers }: { parse?: (text: string) => unknown; maxNumbers?: number | undefined } = {},
): unknown {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new GatewayError("invalid_request", { status: 415, message: "The content type must be application/json." });
  }
  if (isEncoded(request)) {
    const message = "Compressed bodies are not supported. Send the body without Content-Encoding.";
    // States the accepted content coding (RFC 9110, 12.5.3).
    throw new GatewayError("invalid_request", { status: 415, message, headers: { "accept-encoding": "identity" } });
  }
  const maxValues = Math.floor(valuesPerMebibyte * Math.max(1, body.byteLength / mebibyte));
  const fault = jsonStructureFault(body, { maxDepth, maxValues, maxMembers, maxNumbers });
  if (fault !== null) throw invalid(fault);
  let value: unknown;
  let hasEscapes: boolean;
  try {
    const text = utf8.decode(body);
    hasEscapes = text.includes("\\u");
    value = parse(text);
  } catch {
    throw new GatewayError("invalid_json");
  }
  // JSON in UTF-8 can hold these characters only as escapes.
  if (hasEscapes && !isStorableJson(value)) throw invalid("A text holds a NUL character or half of a surrogate pair.");
  return value;
}

function invalid(message: string): GatewayError {
  return new GatewayError("invalid_request", { message });
}
