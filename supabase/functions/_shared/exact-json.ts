/** A number of a JSON text, with the digits as they were written. */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A reviver with the source text of primitives (ECMAScript, JSON.parse source text access), which the compiler's library does not know yet. */
type Reviver = (this: unknown, key: string, value: unknown, context: { source: string }) => unknown;
const parse = JSON.parse as (text: string, reviver: Reviver) => unknown;

/**
 * Parses JSON in which every number is a {@link JsonNumber}: amounts never pass through a float.
 * @throws SyntaxError
 */
export function parseExactJson(text: string): unknown {
  return parse(text, (_, value, { source }) => (typeof value === "number" ? new JsonNumber(source) : value));
}
