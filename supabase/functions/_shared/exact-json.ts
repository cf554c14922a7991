import { jsonNumber } from "./raw-json.ts";

/** A JSON number with its original digits, which `JSON.stringify` writes unchanged. */
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
 * `JSON.parse` with a reviver that receives the source text of primitives (ECMAScript, JSON.parse source text access).
 * TypeScript's library doesn't declare this yet.
 */
const parseWithReviver = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source: string }) => unknown,
) => unknown;

/**
 * Parses JSON with numbers as {@link JsonNumber}, so that amounts never pass through a float.
 * @param isExact returns whether the number of a member with this name becomes a JsonNumber; defaults to all numbers
 * @throws SyntaxError
 */
export function parseExactJson(text: string, isExact: (name: string) => boolean = () => true): unknown {
  return parseWithReviver(text, (name, value, { source }) =>
    typeof value === "number" && isExact(name) ? new JsonNumber(source) : value,
  );
}
