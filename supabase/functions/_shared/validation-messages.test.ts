import { expect, test } from "vitest";
import { z } from "zod";
import { nameField, ourMessages } from "./validation-messages.ts";

const union = z.union([z.string(), z.object({ a: z.number() })]);
const tagged = z.discriminatedUnion("type", [z.object({ type: z.literal("a") }), z.object({ type: z.literal("b") })]);

test.for<[string, z.ZodType, unknown, string]>([
  ["missing", z.string(), undefined, "f is required."],
  ["invalid_type", z.string(), 1, "f must be a string."],
  ["invalid_type", z.number(), "1", "f must be a number."],
  ["invalid_type", z.number().int(), 1.5, "f must be a whole number."],
  ["invalid_type", z.boolean(), 1, "f must be true or false."],
  ["invalid_type", z.array(z.string()), {}, "f must be a list."],
  ["invalid_type", z.tuple([z.string()]), {}, "f must be a list."],
  ["invalid_type", z.object({}), [], "f must be an object."],
  ["invalid_type", z.record(z.string(), z.string()), [], "f must be an object."],
  ["invalid_type", z.null(), 1, "f must be null."],
  ["invalid_type", z.never(), 1, "f is not supported."],
  ["invalid_type", z.date(), 1, "f must be a time."],
  ["invalid_type", z.number(), Number.NaN, "f must be a number."],
  ["too_small", z.number().min(1), 0, "f must be at least 1."],
  ["too_small", z.number().gt(1), 1, "f must be more than 1."],
  ["too_small", z.string().min(1), "", "f must not be empty."],
  ["too_small", z.string().min(2), "a", "f must have at least 2 characters."],
  ["too_small", z.array(z.string()).min(2), [], "f must have at least 2 items."],
  ["too_small", z.date().min(new Date(0)), new Date(-1), "f must be at least 1970-01-01T00:00:00.000Z."],
  ["too_small", z.string().length(3), "a", "f must have exactly 3 characters."],
  ["too_big", z.number().max(32_768), 40_000, "f must be at most 32,768."],
  ["too_big", z.number().lt(2), 2, "f must be less than 2."],
  ["too_big", z.string().max(1), "ab", "f must have at most 1 character."],
  ["too_big", z.array(z.string()).max(1), ["a", "b"], "f must have at most 1 item."],
  ["too_big", z.set(z.string()).max(1), new Set(["a", "b"]), "f must have at most 1 item."],
  ["too_big", z.string().length(3), "abcd", "f must have exactly 3 characters."],
  ["invalid_format", z.uuid(), "a", "f must be a UUID."],
  ["invalid_format", z.url(), "a", "f must be a URL."],
  ["invalid_format", z.email(), "a", "f must be an email address."],
  ["invalid_format", z.iso.datetime(), "a", "f must be a time, such as 2026-01-31T12:00:00Z."],
  ["invalid_format", z.iso.date(), "a", "f must be a date, such as 2026-01-31."],
  ["invalid_format", z.string().startsWith("ttr_"), "a", 'f must start with "ttr_".'],
  ["invalid_format", z.string().endsWith("z"), "a", 'f must end with "z".'],
  ["invalid_format", z.string().includes("z"), "a", 'f must contain "z".'],
  ["invalid_format", z.string().regex(/^b$/), "a", "f must match /^b$/."],
  ["invalid_format", z.nanoid(), "a", "f must be in the format that the API reference states."],
  ["not_multiple_of", z.number().multipleOf(5), 3, "f must be a multiple of 5."],
  ["unrecognized_keys", z.strictObject({}), { a: 1 }, "Unknown field: a."],
  ["unrecognized_keys", z.strictObject({}), { a: 1, b: 2 }, "Unknown fields: a, b."],
  ["invalid_union", union, 1, "f has none of the accepted forms."],
  ["invalid_union", tagged, { type: "c" }, 'f must be one of "a", "b".'],
  ["invalid_key", z.record(z.string().max(1), z.string()), { ab: "" }, "f has a member with an invalid name."],
  ["invalid_element", z.map(z.date(), z.string()), new Map([[new Date(0), 1]]), "f has an invalid member."],
  ["invalid_value", z.literal("a"), "b", 'f must be "a".'],
  ["invalid_value", z.enum(["a", "b"]), "c", 'f must be one of "a", "b".'],
  ["custom", z.custom(() => false), 1, "f is not valid."],
  ["custom", z.custom(() => false), undefined, "f is not valid."],
])("an issue of kind %s has a sentence of ours (case %#)", ([code, schema, value, message]) => {
  const [issue] = schema.safeParse(value, ourMessages).error?.issues ?? [];
  expect(nameField(issue?.message ?? "", "f")).toBe(message);
  expect(issue?.code).toBe(code === "missing" ? "invalid_type" : code);
});

test("a schema's own message wins, gets the field as its subject if it has none, and ends as a sentence", () => {
  const own = (message: string) =>
    nameField(z.string({ error: message }).safeParse(1, ourMessages).error?.issues[0]?.message ?? "", "f");
  expect(own("must be base64 or a data URL")).toBe("f must be base64 or a data URL.");
  expect(own("Enter a day.")).toBe("Enter a day.");
  expect(nameField("This field is required.", undefined)).toBe("This field is required.");
});
