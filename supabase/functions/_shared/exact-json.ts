import { jsonNumber } from "./raw-json.ts";

/** A number of a JSON text, with the digits as they were written, and `JSON.stringify` writes it so again. */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toJSON(): object {
    return jsonNumber(this.text);
  }
}

/**
 * `JSON.parse` as it is by now: a reviver sees the source text of primitives (ECMAScript, JSON.parse source text access),
 * which the compiler's library does not know yet.
 */
const parse = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source: string }) => unknown,
) => unknown;

/**
 * Parses JSON in which numbers are a {@link JsonNumber}: amounts never pass through a float.
 * @param isExact says which are, by the name of their member; all, where it is left out
 * @throws SyntaxError
 */
export function parseExactJson(text: string, isExact: (name: string) => boolean = () => true): unknown {
  return parse(text, (name, value, { source }) =>
    typeof value === "number" && isExact(name) ? new JsonNumber(source) : value,
  );
}
