import { expect, test } from "vitest";
import { sampleOf } from "./schema-sample.ts";

test.each([
  ["a constant", { const: 7 }, 7],
  ["an enumeration", { enum: ["p", "q"] }, "p"],
  ["a nullable type", { type: ["string", "null"] }, "demo"],
  ["a minimum", { type: "integer", minimum: 3 }, 3],
  ["an exclusive minimum", { type: "number", exclusiveMinimum: 1, multipleOf: 0.25 }, 1.25],
  ["a maximum below the step", { type: "integer", maximum: -2 }, -2],
  ["lengths", { type: "string", minLength: 6, maxLength: 6 }, "demo.."],
  ["a format", { type: "string", format: "date" }, "2026-01-01"],
  ["items", { type: "array", minItems: 2, items: { type: "boolean" } }, [true, true]],
  ["an `allOf`", { allOf: [{ type: "object", properties: { a: { type: "null" } } }] }, { a: null }],
  ["properties but no type", { properties: { a: { items: { const: 1 } } } }, { a: [1] }],
])("creates a sample value for a schema with %s", (_, schema, value) => {
  expect(sampleOf(schema)).toEqual(value);
});

test("creates a finite sample value for a recursive schema", () => {
  const node = {
    type: "object",
    properties: { next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] } },
    required: ["next"],
  };
  const text = JSON.stringify(sampleOf({ $ref: "#/$defs/node", $defs: { node } }));
  expect(text).toMatch(/^(\{"next":)+null\}+$/);
});
