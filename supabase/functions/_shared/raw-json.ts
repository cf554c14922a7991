/** `JSON.rawJSON` (ECMAScript, JSON.parse source text access). The compiler's library doesn't declare it yet. */
const rawJson = (JSON as unknown as { rawJSON: (text: string) => object }).rawJSON;

/**
 * Returns an object that `JSON.stringify` writes as a number with the given digits, so that amounts never pass through
 * a float.
 */
export function jsonNumber(text: string): object {
  return rawJson(text);
}
