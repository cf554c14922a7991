/** `JSON.rawJSON` (ECMAScript, JSON.parse source text access), which the compiler's library does not know yet. */
const rawJson = (JSON as unknown as { rawJSON: (text: string) => object }).rawJSON;

/** A JSON number for `JSON.stringify` with the digits as given: amounts never pass through a float. */
export function jsonNumber(text: string): object {
  return rawJson(text);
}
