import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { chatSchema } from "../chat/schema.ts";
import { responsesSchema } from "../responses/schema.ts";
import { parserOfGivenFields } from "./given-fields.ts";

const values = [
  ...["m", "", "none", "auto", "low", "x".repeat(600), 0, 1, 1.5, -1, 9, 40_000, true, false, null, [], {}],
  ...[["a", "b"], [{ role: "user", content: "hello" }], [{ role: "user", content: [{ type: "text", text: "a" }] }]],
  ...[[{ role: "user" }], [{ role: "nobody", content: "x" }], [{ type: "message", role: "user", content: "hello" }]],
  ...[{ type: "json_object" }, { include_usage: true }, { include_obfuscation: 1 }, { a: "b" }, { effort: "high" }],
  ...[[{ type: "function", function: { name: "f" } }, "calculator"], { format: { type: "text" } }, { "7": 3 }],
];

test.for([
  ["chat", chatSchema, { model: "m", messages: [{ role: "user", content: "hello" }] }],
  ["responses", responsesSchema, { model: "m", input: "hello" }],
] as const)("%s: says what the whole schema says", ([, schema, least]) => {
  const parse = parserOfGivenFields(schema as z.ZodObject);
  const names = [...Object.keys(schema.shape), "unknown", "__proto__", "constructor"];
  const field = fc.tuple(fc.constantFrom(...names), fc.constantFrom(...values));
  let taken = 0;
  fc.assert(
    fc.property(
      fc.array(field, { maxLength: 3 }),
      fc.constantFrom(...Object.keys(least), "", "", "", ""),
      (some, without) => {
        const known = Object.entries(least).filter(([name]) => name !== without);
        const entries = [...known, ...some].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
        const body: unknown = JSON.parse(`{${entries.join(",")}}`);
        const [got, whole] = [parse(body), schema.safeParse(body)];
        expect(got.success).toBe(whole.success);
        expect(got.data).toEqual(whole.data);
        expect(got.error?.issues).toEqual(whole.error?.issues);
        if (got.success) taken += 1;
      },
    ),
    { numRuns: 3_000 },
  );
  expect(taken).toBeGreaterThan(300);
});

test.for([[null], ["text"], [7], [[]], [["a"]], [undefined]])("%j is no body, in the schema's words", ([body]) => {
  expect(parserOfGivenFields(chatSchema)(body).error?.issues).toEqual(chatSchema.safeParse(body).error?.issues);
});

test("hands on what fields make of their values", () => {
  const schema = z.strictObject({ a: z.string().transform((text) => text.length), b: z.number().optional() });
  expect(parserOfGivenFields(schema)({ a: "four" })).toEqual({ success: true, data: { a: 4 } });
});
