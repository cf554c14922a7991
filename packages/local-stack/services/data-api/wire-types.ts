import pg from "pg";

/** Writes a number's own text into JSON (ECMAScript "JSON.parse source text access"). TypeScript's library lacks it. */
const { rawJSON } = JSON as JSON & { rawJSON: (text: string) => unknown };

/** The actual type of `pg.types.arrayParser`. The published types don't declare `create`. */
const arrays = pg.types.arrayParser as unknown as {
  create: (literal: string, parseElement: (text: string) => unknown) => { parse: () => unknown[] };
};

/** The oid of each array type's element type. */
export type ElementTypes = ReadonlyMap<number, number>;

/** Element types of the built-in array types that the catalogue and common columns use. */
const builtInElementTypes: ElementTypes = new Map([
  [199, 114],
  [1000, 16],
  [1001, 17],
  [1003, 19],
  [1005, 21],
  [1007, 23],
  [1009, 25],
  [1014, 1042],
  [1015, 1043],
  [1016, 20],
  [1021, 700],
  [1022, 701],
  [1028, 26],
  [1115, 1114],
  [1182, 1082],
  [1185, 1184],
  [1231, 1700],
  [2951, 2950],
  [3807, 3802],
]);

const parsers = new Map<number, (text: string) => unknown>([
  [16, (text) => text === "t"],
  [20, exactNumber],
  [21, Number],
  [23, Number],
  [26, Number],
  [114, exactJson],
  [700, float],
  [701, float],
  [1114, isoTimestamp],
  [1184, isoTimestamp],
  [1700, exactNumber],
  [3802, exactJson],
]);

/**
 * Returns the function that converts a type's values to JSON, as Postgres's `to_json` and PostgREST do. Values of other
 * types stay text.
 */
export function parserOf(oid: number, elementTypes: ElementTypes = new Map()): (text: string) => unknown {
  const element = builtInElementTypes.get(oid) ?? elementTypes.get(oid);
  if (element === undefined) return parsers.get(oid) ?? ((text) => text);
  const parseElement = parserOf(element, elementTypes);
  return (text) => arrays.create(text, parseElement).parse();
}

/**
 * Returns a number if a double holds it exactly, otherwise a JSON number with all its digits. `NaN` and infinities are
 * text.
 */
export function exactNumber(text: string): unknown {
  const value = Number(text);
  if (!Number.isFinite(value)) return text;
  const canonical = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return String(value) === canonical ? value : rawJSON(text);
}

/** Parses JSON without losing digits of numbers. */
export function exactJson(text: string): unknown {
  type Reviver = (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown;
  const revive: Reviver = (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && !/e/i.test(source) ? exactNumber(source) : value;
  return JSON.parse(text, revive as Parameters<typeof JSON.parse>[1]);
}

/** Converts `2026-01-31 10:00:00.5+00` to `2026-01-31T10:00:00.5+00:00`; `infinity` stays. */
export function isoTimestamp(text: string): string {
  return text
    .replace(/^(\d+-\d\d-\d\d) /, "$1T")
    .replace(/([+-]\d\d)(?=$| BC)/, (offset, _hours, at) => (at > 10 ? `${offset}:00` : offset));
}

function float(text: string): unknown {
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}
