import type { Decimal } from "#shared/decimal.ts";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import { readAmount } from "./read-amount.ts";

/** One JSON value of a file; lists of rows belong into lines or CSV beyond that. */
const mostCharacters = 128 * 1024 * 1024;

/**
 * Reads the values of a file that is one JSON text, lines of JSON, or JSON texts one after the other.
 * @throws UnreadableCostFile for a file that ends in the middle of a value
 */
export async function* jsonValues(text: AsyncIterable<string>): AsyncGenerator<unknown> {
  let rest = "";
  let depth = 0;
  let at = 0;
  let inString = false;
  for await (const part of text) {
    rest += part;
    let start = 0;
    for (; at < rest.length; at++) {
      const character = rest.charCodeAt(at);
      if (inString) {
        if (character === 0x5c) at++;
        else if (character === 0x22) inString = false;
      } else if (character === 0x22) inString = true;
      else if (character === 0x7b || character === 0x5b) depth++;
      else if ((character === 0x7d || character === 0x5d) && --depth === 0) {
        yield parse(rest.slice(start, at + 1));
        start = at + 1;
      }
    }
    rest = rest.slice(start);
    at -= start;
    if (rest.length > mostCharacters) {
      throw new UnreadableCostFile(
        "The file is one JSON value of more than 128 MiB. Export it as lines of JSON or CSV.",
      );
    }
  }
  if (/^[\s,]*$/.test(rest)) return;
  throw new UnreadableCostFile("The file ends in the middle of a JSON value: it is cut off. Download it again.");
}

function parse(text: string): unknown {
  try {
    return parseExactJson(text.replace(/^[\s,]+/, ""));
  } catch {
    throw new UnreadableCostFile("The file is not valid JSON: it is cut off or damaged. Download it again.");
  }
}

/** An amount that is a number or its text, exactly. */
export function readExactAmount(value: unknown, where: string): Decimal {
  const text = value instanceof JsonNumber ? value.text : value;
  const amount = typeof text === "string" ? readAmount(text.trim()) : null;
  if (amount !== null) return amount;
  throw new UnreadableCostFile(`${where} is ${JSON.stringify(value) ?? "missing"}, which is not an amount.`);
}

/** A JSON object, by the names of its members. */
export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber);
}

/** A text, or null where it is missing or empty; numbers as they are written. */
export function textOf(value: unknown): string | null {
  if (value instanceof JsonNumber) return value.text;
  return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
}

/** Pages of daily buckets, as costs APIs answer them. */
export type JsonFormat = {
  id: string;
  name: string;
  isBucket: (value: JsonObject) => boolean;
  /** The time of a bucket, as it is written. */
  bucketStart: (bucket: JsonObject) => string | null;
  readBucket: (bucket: JsonObject, where: string) => ReadLine[];
};
