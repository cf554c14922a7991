import type { Decimal } from "#shared/decimal.ts";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import { readAmount } from "./read-amount.ts";

/** The maximum length of one JSON value in a file, such as a page of costs or a row. */
const maxJsonLength = 32 * 1024 * 1024;
/** The maximum number of values in one JSON value. Commas and opening brackets count as values. */
const maxJsonValues = 500_000;

/**
 * Yields the values of a file that is one JSON text, JSON lines, or concatenated JSON texts. Yields each member of a
 * list separately.
 * @throws UnreadableCostFile if the file ends within a value
 */
export async function* jsonValues(text: AsyncIterable<string>): AsyncGenerator<unknown> {
  /** The parts of the current value before the current part, and their length. */
  let before: string[] = [];
  let length = 0;
  let depth = 0;
  let values = 0;
  let inString = false;
  let isEscaped = false;
  let inList = false;
  for await (const part of text) {
    /** The start of the current value in this part. */
    let start = 0;
    for (let at = 0; at < part.length; at++) {
      const character = part[at];
      if (isEscaped) isEscaped = false;
      else if (inString) {
        if (character === "\\") isEscaped = true;
        else if (character === '"') inString = false;
      } else if (depth === 0) {
        if (character === "{" || (character === "[" && inList)) {
          start = at;
          depth = 1;
          values = 1;
        } else if (character === "[" || character === "]") {
          if (inList !== (character === "]")) throw createDamagedFileError();
          inList = !inList;
        } else if (!/[\s,]/.test(character ?? "")) throw createDamagedFileError();
      } else if (character === '"') inString = true;
      else if (character === ",") values++;
      else if (character === "{" || character === "[") {
        depth++;
        values++;
      } else if ((character === "}" || character === "]") && --depth === 0) {
        yield parseJsonValue(before.join("") + part.slice(start, at + 1));
        before = [];
        length = 0;
      }
      if (values > maxJsonValues) {
        throw new UnreadableCostFile(
          "The file has a JSON value with more than 500,000 values. Export it as JSON Lines or CSV.",
        );
      }
    }
    if (depth === 0) continue;
    before.push(part.slice(start));
    length += part.length - start;
    if (length > maxJsonLength) {
      throw new UnreadableCostFile("The file has a JSON value larger than 32 MiB. Export it as JSON Lines or CSV.");
    }
  }
  if (depth > 0 || inList) {
    throw new UnreadableCostFile("The file is incomplete: it ends inside a JSON value. Download it again.");
  }
}

function parseJsonValue(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch {
    throw createDamagedFileError();
  }
}

function createDamagedFileError(): UnreadableCostFile {
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
