import fc from "fast-check";
import type { Schema } from "../../remix-app/api-reference/documents.ts";

/** The email domain of generated accounts, which distinguishes them from others. */
export const madeUpDomain = "fuzz.gatehouse.test";

/** Texts that have broken servers before. */
export const tellingTexts = fc.constantFrom(
  "",
  " ",
  "0",
  "-1",
  "null",
  "undefined",
  "NaN",
  "00000000-0000-0000-0000-000000000000",
  "ffffffff-ffff-ffff-ffff-ffffffffffff",
  "a\u0000b",
  "\ud800",
  "\u202e\u200b\ufeff",
  "💣".repeat(300),
  "x".repeat(10_000),
  "'; drop table users; --",
  "\\'\"`$(id)#{7*7}{{7*7}}",
  "../../etc/passwd",
  "//evil.test/\\evil.test",
  "javascript:alert(1)",
  "<script>alert(1)</script>",
  "%00%0d%0aSet-Cookie:x=y",
  "2026-13-45T99:99:99Z",
  "2026-02-30",
  "9999999999999999999999",
  "1e400",
  "__proto__",
  "constructor",
  "[object Object]",
  "eyJhbGciOiJub25lIn0.e30.",
  "eyJjcmVhdGVkQXQiOiJub3cifQ",
  `ada@${madeUpDomain}`,
);

/** Values of any kind, mostly the texts that tend to break servers. */
export const anything: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: tellingTexts },
  { weight: 2, arbitrary: fc.constantFrom(null, true, false, 0, -1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, [], {}) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
);

const formats: Record<string, fc.Arbitrary<unknown>> = {
  uuid: fc.uuid(),
  "date-time": fc
    .date({ min: new Date("2000-01-01"), max: new Date("2100-01-01"), noInvalidDate: true })
    .map((date) => date.toISOString()),
  date: fc
    .date({ min: new Date("2000-01-01"), max: new Date("2100-01-01"), noInvalidDate: true })
    .map((date) => date.toISOString().slice(0, 10)),
  email: fc.constant(`ada@${madeUpDomain}`),
  uri: fc.webUrl(),
};

/** Generates values that match a schema. Ignores rules that JSON Schema cannot express. */
export function valuesOf(schema: Schema, resolve: (ref: string) => Schema, depth = 0): fc.Arbitrary<unknown> {
  if (schema.$ref) return valuesOf(resolve(schema.$ref), resolve, depth);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives) return fc.oneof(...alternatives.map((each) => valuesOf(each, resolve, depth)));
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "string":
      return texts(schema);
    case "integer":
      return fc.integer({
        min: clamp(schema.minimum, 0),
        max: Math.max(clamp(schema.minimum, 0), clamp(schema.maximum, 1_000)),
      });
    case "number":
      return fc.integer({ min: 0, max: 1_000 }).map((cents) => cents / 100);
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array": {
      if (schema.prefixItems) return fc.tuple(...schema.prefixItems.map((item) => valuesOf(item, resolve, depth + 1)));
      const least = schema.minItems ?? 0;
      const item = depth > 5 ? fc.constant("x") : valuesOf(schema.items ?? {}, resolve, depth + 1);
      return fc.array(item, { minLength: least, maxLength: least + 2 });
    }
    case "object":
      return objects(schema, resolve, depth);
    default:
      return fc.jsonValue({ maxDepth: 1 });
  }
}

function objects(schema: Schema, resolve: (ref: string) => Schema, depth: number): fc.Arbitrary<unknown> {
  const { properties = {}, required = [], additionalProperties } = schema;
  if (Object.keys(properties).length === 0 && additionalProperties) {
    return fc.dictionary(fc.constantFrom("a", "type", "12"), fc.constantFrom("string", "object", 1, true), {
      maxKeys: 2,
      noNullPrototype: true,
    });
  }
  const parts = Object.entries(properties).map(
    ([name, property]) => [name, valuesOf(property, resolve, depth + 1)] as const,
  );
  return fc.record(Object.fromEntries(parts), { requiredKeys: [...required], noNullPrototype: true });
}

function texts({ format, pattern, minLength = 0, maxLength = 40 }: Schema): fc.Arbitrary<unknown> {
  const known = format === undefined ? undefined : formats[format];
  if (known) return known;
  if (pattern !== undefined) {
    try {
      return fc.stringMatching(new RegExp(pattern), { maxLength: 64 });
    } catch {
      return fc.constant("x");
    }
  }
  return fc.oneof(
    fc.constant("demo-chat"),
    fc.string({ minLength, maxLength: Math.max(minLength, Math.min(maxLength, 60)) }),
  );
}

function clamp(value: number | undefined, fallback: number): number {
  return value === undefined || Math.abs(value) > 1e9 ? fallback : value;
}
