/** A number's own text in JSON (ECMAScript "JSON.parse source text access"), which TypeScript's library lacks. */
const { rawJSON } = JSON as JSON & { rawJSON: (text: string) => unknown };

type WireType = { to: number; from: number[]; serialize: (value: unknown) => string; parse: (text: string) => unknown };

function wireType(
  oid: number,
  parse: (text: string) => unknown,
  serialize: (value: unknown) => string = String,
): WireType {
  return { to: oid, from: [oid], parse, serialize };
}

function serializeJson(value: unknown): string {
  return JSON.stringify(value);
}

/** How values leave the driver so that they read in JSON as Postgres' own `to_json` writes them, as with PostgREST. */
export const jsonWireTypes = {
  bigint: wireType(20, exactNumber),
  numeric: wireType(1700, exactNumber),
  json: wireType(114, exactJson, serializeJson),
  jsonb: wireType(3802, exactJson, serializeJson),
  timestamp: wireType(1114, isoTimestamp),
  timestamptz: wireType(1184, isoTimestamp),
  bytea: wireType(17, (text) => text),
};

/** A number where a double holds it exactly, else a JSON number with all its digits; `NaN` and infinities as text. */
export function exactNumber(text: string): unknown {
  const value = Number(text);
  if (!Number.isFinite(value)) return text;
  const canonical = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return String(value) === canonical ? value : rawJSON(text);
}

/** Parses JSON without losing digits of the numbers in it. */
export function exactJson(text: string): unknown {
  type Reviver = (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown;
  const revive: Reviver = (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && !/e/i.test(source) ? exactNumber(source) : value;
  return JSON.parse(text, revive as Parameters<typeof JSON.parse>[1]);
}

/** `2026-01-31 10:00:00.5+00` as `2026-01-31T10:00:00.5+00:00`; `infinity` stays. */
export function isoTimestamp(text: string): string {
  return text
    .replace(/^(\d+-\d\d-\d\d) /, "$1T")
    .replace(/([+-]\d\d)(?=$| BC)/, (offset, _hours, at) => (at > 10 ? `${offset}:00` : offset));
}
