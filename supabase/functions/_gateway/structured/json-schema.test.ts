import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileSchema } from "./json-schema.ts";

/**
 * The key `then`. The linter rejects it as a literal key, because `await` treats an object with `then` as a promise.
 */
const branch = "then";
const ajv = new Ajv2020({ strict: false, validateFormats: false });
const tree = {
  $ref: "#/$defs/node",
  $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" }, v: {} }, required: ["v"] } },
};

describe("Our schema checks agree with ajv", () => {
  test.for<[object | boolean, unknown[]]>([
    [true, [1, null]],
    [false, [1, null]],
    [{ type: ["integer", "null"] }, [1, 1.0, 1.5, null, "1"]],
    [{ enum: [1, "1", { a: [1, { b: 2, c: 3 }] }] }, [1, "1", 1.0, { a: [1, { c: 3, b: 2 }] }, { a: [1] }]],
    [{ const: -0 }, [0, -0, false]],
    [{ minimum: 1, exclusiveMaximum: 3 }, [0, 1, 2, 3, "x"]],
    [{ multipleOf: 0.5 }, [1.5, 1.25, 0]],
    [{ minLength: 2, maxLength: 2 }, ["😀😀", "😀", "abc"]],
    [{ pattern: "^[A-Z]{2}\\d+$" }, ["AB12", "ab12", "AB", 7]],
    [
      { minItems: 1, maxItems: 2, uniqueItems: true },
      [
        [],
        [1],
        [1, 1],
        [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
        [1, 2, 3],
      ],
    ],
    [{ prefixItems: [{ type: "string" }], items: { type: "number" } }, [["a", 1], ["a", "b"], [1], []]],
    [{ contains: { const: 1 }, minContains: 2, maxContains: 3 }, [[1], [1, 1], [1, 1, 1, 1], "x"]],
    [{ contains: { const: 1 }, minContains: 0 }, [[], [2]]],
    [
      { properties: { a: { type: "number" } }, required: ["a"], additionalProperties: false },
      [{ a: 1 }, { a: "1" }, {}, { a: 1, b: 2 }, JSON.parse('{"a":1,"__proto__":1}'), []],
    ],
    [
      { patternProperties: { "^x": { type: "number" } }, additionalProperties: { type: "string" } },
      [{ x1: 1 }, { x1: "1" }, { y: "1" }, { y: 1 }],
    ],
    [{ propertyNames: { maxLength: 2 }, minProperties: 1, maxProperties: 2 }, [{}, { ab: 1 }, { abc: 1 }]],
    [{ dependentRequired: { a: ["b"] } }, [{ a: 1 }, { a: 1, b: 2 }, { b: 1 }]],
    [{ dependentSchemas: { a: { required: ["b"] } } }, [{ a: 1 }, { a: 1, b: 2 }, { b: 1 }]],
    [{ anyOf: [{ type: "string" }, { minimum: 3 }] }, ["a", 2, 3]],
    [{ oneOf: [{ minimum: 1 }, { minimum: 3 }] }, [0, 2, 4]],
    [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, [0, 2, 4]],
    [{ not: { type: "string" } }, ["a", 1]],
    [{ if: { minimum: 3 }, [branch]: { multipleOf: 2 }, else: { const: 1 } }, [1, 2, 3, 4]],
    [{ if: { minimum: 3 } }, [1, 4]],
    [tree, [{ v: 1, next: { v: 2 } }, { v: 1, next: {} }, {}]],
    [{ $ref: "#/definitions/a~1b", definitions: { "a/b": { type: "null" } } }, [null, 1]],
    [
      { title: "x", description: "y", default: 1, examples: [1], format: "date", "x-own": 1, $comment: "" },
      [1, "no date"],
    ],
  ])("the schema %j accepts the same values as in ajv", ([schema, values]) => {
    const ours = compileSchema(schema);
    const theirs = ajv.compile(schema);
    expect(values.map((value) => ours(value))).toEqual(values.map((value) => theirs(value)));
  });

  test("any schema accepts or rejects any value exactly as ajv does", () => {
    const leaf = fc.constantFrom<object>(
      { type: "string" },
      { type: "integer" },
      { enum: [1, "a", null, []] },
      { minimum: 2 },
      { maxLength: 1 },
      { minItems: 1 },
      { required: ["a"] },
      {},
    );
    const { schema } = fc.letrec<{ schema: object }>((tie) => ({
      schema: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        leaf,
        fc.record({ properties: fc.dictionary(fc.constantFrom("a", "b"), tie("schema")) }),
        fc.record({ properties: fc.record({ a: tie("schema") }), additionalProperties: fc.boolean() }),
        fc.record({ items: tie("schema") }),
        fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
        fc.record({ oneOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
        fc.record({ not: tie("schema") }),
        fc.record({ if: tie("schema"), [branch]: tie("schema"), else: tie("schema") }),
      ),
    }));
    const value = fc
      .jsonValue({ maxDepth: 3 })
      .map((each) => JSON.parse(JSON.stringify(each).replaceAll(/"\w{0,3}":/g, '"a":')));
    fc.assert(
      fc.property(schema, value, (given, answer) => {
        expect(compileSchema(given)(answer)).toBe(ajv.compile(given)(answer));
      }),
      { numRuns: 300 },
    );
  });
});

test.for<[string, unknown]>([
  ["a number as its root", 7],
  ["an unknown type", { type: "text" }],
  ["an empty list of types", { type: [] }],
  ["an inherited property name as its type", { type: "constructor" }],
  ["a list as its `properties`", { properties: [] }],
  ["a property that is not a schema", { properties: { a: 1 } }],
  ["a `required` keyword that is not a list", { required: "a" }],
  ["a negative length", { minLength: -1 }],
  ["an empty `anyOf`", { anyOf: [] }],
  ["a list as its `items`, as in older drafts", { items: [{}] }],
  ["a reference to a missing definition", { $ref: "#/$defs/none" }],
  ["a reference to an inherited property", { $ref: "#/constructor" }],
  ["a reference to another document", { $ref: "https://example.com/schema.json" }],
  ["a reference to a file", { $ref: "file:///etc/passwd" }],
  ["a dynamic reference", { $dynamicRef: "#node" }],
  ["a keyword that depends on other keywords", { unevaluatedProperties: false }],
  ["an invalid pattern", { pattern: "[" }],
  ["a lookahead in a pattern", { pattern: "(?=a)b" }],
  ["an invalid definition that is unused", { $defs: { a: { type: "text" } } }],
  ["an invalid branch", { if: true, [branch]: { type: "text" } }],
  ["an invalid branch without a condition", { [branch]: { type: "text" } }],
])("a schema with %s does not compile", ([, schema]) => {
  expect(() => compileSchema(schema)).toThrow(expect.objectContaining({ name: "UnsupportedSchema" }));
});

describe("schema checks stay fast", { timeout: 20_000 }, () => {
  /**
   * Time limit for each check. Without the limits in the code, the checks would take minutes or never end. A busy
   * machine may need several seconds.
   */
  const limitMs = 8_000;
  const within = (work: () => unknown) => {
    const begun = performance.now();
    const result = work();
    expect(performance.now() - begun).toBeLessThan(limitMs);
    return result;
  };

  test("a schema check stays fast for a pattern that backtracks", () => {
    const check = compileSchema({ pattern: "^(a+)+$" });
    expect(within(() => check(`${"a".repeat(50_000)}!`))).toBe(false);
  });

  test.for<[string, object]>([
    ["many patterns", { allOf: Array.from({ length: 3_000 }, (_, at) => ({ pattern: `a{1000}${at}` })) }],
    ["many small patterns", { allOf: Array.from({ length: 8_000 }, (_, at) => ({ pattern: `${at}` })) }],
    ["one pattern with many repetitions", { pattern: "(a|b|c|d|e){1000}".repeat(200) }],
    ["one pattern with nested repetitions", { pattern: "((ab{10}c){10}d){10}".repeat(50) }],
    ["one pattern of letters in any language", { pattern: "\\p{L}{1000}".repeat(50) }],
    [
      "many patterns for property names",
      { patternProperties: Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`${at}x{9}`, true])) },
    ],
    ["one deeply nested pattern", { pattern: "(".repeat(20_000) + ")".repeat(20_000) }],
  ])("quickly refuses a schema with patterns that are too large: %s", ([, schema]) => {
    within(() => expect(() => compileSchema(schema)).toThrow(/regular expression/));
  });

  test("a schema check stays fast for 500 uses of the same pattern", () => {
    const uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    const check = compileSchema({ items: { anyOf: Array.from({ length: 500 }, () => ({ pattern: uuid })) } });
    expect(within(() => check(["01a1ffdb-9437-7182-a50d-ced7edb238e2"]))).toBe(true);
  });

  test("a schema check stays fast for alternatives that double in number at each level", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 60 }, (_, at) => [
        `d${at}`,
        { anyOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
      ]),
    );
    const check = compileSchema({ $ref: "#/$defs/d0", $defs: { ...$defs, d60: { type: "string" } } });
    expect(within(() => check(1))).toBeUndefined();
  });

  test("a schema check stays fast for a schema that refers to itself", () => {
    expect(within(() => compileSchema({ $ref: "#" })(1))).toBeUndefined();
    expect(within(() => compileSchema({ anyOf: [{ $ref: "#" }, { not: { $ref: "#" } }] })(1))).toBeUndefined();
  });

  test("a schema check stays fast for a value with many keys and a schema with many alternatives", () => {
    const check = compileSchema({
      anyOf: Array.from({ length: 5_000 }, () => ({ properties: { none: {} }, required: ["x"] })),
    });
    const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`k${at}`, at]));
    expect(within(() => check(wide))).toBeUndefined();
  });

  test("a schema check stays fast for a very deeply nested answer", () => {
    const deep = JSON.parse(`${"[".repeat(5_000)}${"]".repeat(5_000)}`);
    expect(within(() => compileSchema({ items: { $ref: "#" } })(deep))).toBeUndefined();
    expect(within(() => compileSchema({ const: 1 })(deep))).not.toBe(true);
  });

  test("a schema check stays fast for a chain of ten thousand references", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 10_000 }, (_, at) => [`d${at}`, { $ref: `#/$defs/d${at + 1}` }]),
    );
    const schema = { $ref: "#/$defs/d0", $defs: { ...$defs, d10000: true } };
    within(() => {
      try {
        expect(compileSchema(schema)(1)).toBeUndefined();
      } catch (error) {
        expect(error).toMatchObject({ name: "UnsupportedSchema" });
      }
    });
  });
});
