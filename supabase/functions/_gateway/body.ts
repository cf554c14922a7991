import { GatewayError } from "./errors.ts";

/** Bodies may be this large (api.md, Conventions), in bytes. */
export const bodyLimits = { chat: 8 * 1024 * 1024 } as const;

/** Deeper JSON is nobody's chat; recursion further on could not stand it. */
const maxDepth = 64;

/** Bodies held at once by an isolate, which the platform ends at 256 MB: each is held as bytes, text and values. */
const maxBytesHeld = 32 * 1024 * 1024;

export type Body = {
  bytes: Uint8Array<ArrayBuffer>;
  /** Says that the body is needed no more. */
  release: () => void;
};
export type BodyReader = (request: Request, limitBytes: number) => Promise<Body>;

/**
 * Reads bodies and counts them on the way, whatever `Content-Length` says: each one, and all that are held at once.
 * @throws GatewayError `payload_too_large`, or `service_unavailable` before memory runs out
 */
export function createBodyReader(maxHeld: number = maxBytesHeld): BodyReader {
  let held = 0;
  return async (request, limitBytes) => {
    const tooLarge = new GatewayError("payload_too_large", {
      message: `The body may have ${limitBytes} bytes at most.`,
    });
    if (Number(request.headers.get("content-length") ?? 0) > limitBytes) throw tooLarge;
    const chunks: Uint8Array[] = [];
    let size = 0;
    const release = () => {
      held -= size;
      size = 0;
    };
    const reader = request.body?.getReader();
    try {
      for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
        size += next.value.byteLength;
        held += next.value.byteLength;
        if (size > limitBytes) throw tooLarge;
        if (held > maxHeld) throw new GatewayError("service_unavailable", { headers: { "retry-after": "1" } });
        chunks.push(next.value);
      }
    } catch (error) {
      release();
      await reader?.cancel().catch(() => {});
      if (error instanceof GatewayError) throw error;
      throw invalid("The body did not arrive whole.");
    }
    return { bytes: concat(chunks, size), release };
  };
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
 * Parses a JSON body that the rest of the way can carry: UTF-8, of bounded depth, without NUL characters and lone
 * surrogates, which neither Postgres nor every provider takes.
 * @throws GatewayError 415, `invalid_json` or `invalid_request`
 */
export function parseJson(request: Request, body: Uint8Array): unknown {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new GatewayError("invalid_request", { status: 415, message: "The content type must be application/json." });
  }
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new GatewayError("invalid_json");
  }
  checkValues(value);
  return value;
}

function checkValues(root: unknown): void {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) throw invalid("The body is nested too deeply.");
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value === "string") checkText(value);
      else if (Array.isArray(value)) for (const each of value) next.push(each);
      else if (typeof value === "object" && value !== null) {
        for (const [name, each] of Object.entries(value)) {
          checkText(name);
          next.push(each);
        }
      }
    }
    level = next;
  }
}

function checkText(text: string): void {
  if (!text.isWellFormed() || text.includes("\u0000")) {
    throw invalid("A text holds a NUL character or half of a surrogate pair.");
  }
}

function invalid(message: string): GatewayError {
  return new GatewayError("invalid_request", { message });
}
