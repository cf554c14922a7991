import type { Decimal } from "#shared/decimal.ts";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import { readAmount } from "./read-amount.ts";

/** The maximum length of one JSON value in a file, such as a page of costs or a row. */
const mostCharacters = 32 * 1024 * 1024;

/**
 * Yields the values of a file that is one JSON text, JSON lines, or concatenated JSON texts. Yields each member of a
 * list separately.
 * @throws UnreadableCostFile if the file ends within a value
 */
export async function* jsonValues(text: AsyncIterable<string>): AsyncGenerator<unknown> {
  let rest = "";
  let at = 0;
  /** The start of the current value. */
  let start = -1;
  let depth = 0;
  let inString = false;
  let inList = false;
  for await (const part of text) {
    rest += part;
    for (; at < rest.length; at++) {
      const character = rest[at];
      if (inString) {
        if (character === "\\") at++;
        else if (character === '"') inString = false;
      } else if (start < 0) {
        if (character === "{" || (character === "[" && inList)) {
          start = at;
          depth = 1;
        } else if (character === "[" || character === "]") {
          if (inList !== (character === "]")) throw damaged();
          inList = !inList;
        } else if (!/[\s,]/.test(character ?? "")) throw damaged();
      } else if (character === '"') inString = true;
      else if (character === "{" || character === "[") depth++;
      else if ((character === "}" || character === "]") && --depth === 0) {
        yield parse(rest.slice(start, at + 1));
        start = -1;
      }
    }
    const read = start < 0 ? at : start;
    rest = rest.slice(read);
    at -= read;
    if (start >= 0) start = 0;
    if (rest.length > mostCharacters) {
      throw new UnreadableCostFile("The file has a JSON value larger than 32 MiB. Export it as JSON Lines or CSV.");
    }
  }
  if (start >= 0 || inList) {
    throw new UnreadableCostFile("The file is incomplete: it ends inside a JSON value. Download it again.");
  }
}

function parse(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch {
    throw damaged();
  }
}

function damaged(): UnreadableCostFile {
  return new UnreadableCostFile(
    "The file doesn’t contain JSON objects. It’s damaged or isn’t a supported export. Download it again.",
  );
}

/** Reads an exact amount from a number or a string. */
export function readExactAmount(value: unknown, where: string): Decimal {
  const text = value instanceof JsonNumber ? value.text : value;
  const amount = typeof text === "string" ? readAmount(text.trim()) : null;
  if (amount !== null) return amount;
  throw new UnreadableCostFile(
    `${where} is ${JSON.stringify(value) ?? "missing"}, which isn’t an amount. Download the file again.`,
  );
}

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber);
}

/** Returns a string, or null if it is missing or empty. Numbers are returned as written. */
export function textOf(value: unknown): string | null {
  if (value instanceof JsonNumber) return value.text;
  return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
}

/** The format of a costs API, which returns pages of daily buckets. */
export type JsonFormat = {
  id: string;
  name: string;
  isBucket: (value: JsonObject) => boolean;
  /** Returns the start of a bucket as written. */
  bucketStart: (bucket: JsonObject) => string | null;
  readBucket: (bucket: JsonObject, where: string) => ReadLine[];
};
