import { isEncoded } from "../../_shared/content-coding.ts";
import { isStorableJson, jsonStructureFault } from "../../_shared/json-limits.ts";
import { GatewayError } from "./errors.ts";
import { parseWithSource } from "./source-json.ts";

const mebibyte = 1024 * 1024;
/** Real chats stay below these limits. */
const maxDepth = 65;
const maxMembers = 5_000;
/**
 * The maximum number of values for each MiB of a body, and of smaller bodies. Reading a value takes up to a
 * microsecond, during which an isolate serves no other call.
 */
const valuesPerMebibyte = 30_000;
/** A larger body consists of images or documents, and may have no more values than one of this size. */
const maxMebibytesOfValues = 8;

const utf8 = new TextDecoder("utf-8", { fatal: true });

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
  const mebibytes = Math.min(maxMebibytesOfValues, Math.max(1, body.byteLength / mebibyte));
  const maxValues = Math.floor(valuesPerMebibyte * mebibytes);
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
