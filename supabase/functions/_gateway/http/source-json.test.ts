import { describe, expect, test } from "vitest";
import { keepSource, parseWithSource, stringifyWithSource } from "./source-json.ts";

/** Writes a body as the gateway does: a new object around the values that the client sent. */
const sent = (text: string) => stringifyWithSource({ tools: (parseWithSource(text) as { tools: unknown }).tools });

describe("A value reaches the provider as written", () => {
  test.for([
    '{"maximum":9223372036854775807}',
    '{"minimum":-9223372036854775808,"maximum":18446744073709551615}',
    '{"minimum":1e400,"maximum":-1E+400}',
    '{"multipleOf":0.1000000000000000055511151231257827}',
    '{"minimum":1.0,"maximum":-0,"default":1e2}',
    '{"properties":{"2":{},"1":{}}}',
    '{"properties":{"__proto__":{"type":"string"},"a":{}}}',
    String.raw`{"properties":{"\u005f_proto__":{"type":"string"}}}`,
    '{"toJSON":{"maximum":9223372036854775807}}',
    '{"a":[1.0,[9223372036854775807],{"b":"\\" { [ , \\\\"}]}',
    '[{"a":"x"},1.50]',
  ])("the value %s reaches the provider as written", (value) => {
    expect(sent(`{ "tools" : ${value} }`)).toBe(`{"tools":${value}}`);
  });
});

test.for(['{"a":1,"b":[true,null,0.5,"x\\u0001"],"c":{}}', '{"a":"1.0, 2.50: 9223372036854775807"}', "[]", '"x"', "1"])(
  "the JSON text %s is parsed normally",
  (text) => {
    expect(parseWithSource(text)).toEqual(JSON.parse(text));
    expect(stringifyWithSource(parseWithSource(text))).toBe(JSON.stringify(JSON.parse(text)));
  },
);

test("values parsed with their source text have the same members and types as values parsed without it", () => {
  const { list, object } = parseWithSource('{"list":[1.0,2],"object":{"2":9223372036854775807}}') as {
    list: number[];
    object: object;
  };
  expect(Array.isArray(list)).toBe(true);
  expect([list.length, Object.entries(object)]).toEqual([2, [["2", 2 ** 63]]]);
  expect(JSON.stringify({ ...object })).toBe('{"2":9223372036854776000}');
});

// The gateway checks only the last of two members with the same name, but a provider may read the first.
test.for(['{"a":{"x":{"y":1.0,"y":2}}}', '{"a":{"__proto__":1},"a":{"b":1.0}}', '{"n":1.0,"a":{"b":1,"\\u0062":2}}'])(
  "drops the source text of %s, which has a duplicate member",
  (text) => {
    expect(stringifyWithSource(parseWithSource(text))).toBe(JSON.stringify(JSON.parse(text)));
  },
);

test.for(["", "{", '{"a":01}', '{"a":1.}', "{'a':1}", '{"a":1.0,}'])(
  "throws a SyntaxError for the invalid JSON %j",
  (text) => {
    expect(() => parseWithSource(text)).toThrow(SyntaxError);
  },
);

describe("the source text of copied values", () => {
  const text = '{"a":[{"n":1.0}],"b":{"n":2.0,"x":null}}';
  const copyOf = () => JSON.parse(text);

  test("a copied value keeps its source text if nothing changed", () => {
    expect(stringifyWithSource(keepSource(copyOf(), parseWithSource(text)))).toBe(text);
  });

  type Copy = { a: unknown[]; b: Record<string, unknown> };
  test.for<[string, (copy: Copy) => object, string]>([
    ["a member was removed", ({ a }) => ({ a, b: { n: 2 } }), '{"a":[{"n":1.0}],"b":{"n":2}}'],
    ["a member was added", ({ a, b }) => ({ a, b, c: 1 }), '{"a":[{"n":1.0}],"b":{"n":2.0,"x":null},"c":1}'],
    ["a value changed", ({ b }) => ({ a: [{ n: 3 }], b }), '{"a":[{"n":3}],"b":{"n":2.0,"x":null}}'],
    ["an entry was removed", ({ b }) => ({ a: [], b }), '{"a":[],"b":{"n":2.0,"x":null}}'],
    ["a list became an object", ({ a, b }) => ({ a: { ...a }, b }), '{"a":{"0":{"n":1.0}},"b":{"n":2.0,"x":null}}'],
  ])("if %s, only the unchanged parts of a copied value keep their source text", ([_, change, written]) => {
    expect(stringifyWithSource(keepSource(change(copyOf()), parseWithSource(text)))).toBe(written);
  });
});

test("an 8 MB schema reaches the provider exactly as the client wrote it", () => {
  const value = `{"n":1.0,"enum":[${'"a\\"",'.repeat(1_200_000)}""]}`;
  expect(sent(`{"tools":${value}}`) === `{"tools":${value}}`).toBe(true);
});

// In a tool loop, the gateway sends the provider's own text back. The JSON writer must not mistake such text for marked
// source.
test("treats a string that looks like source text as an ordinary string", () => {
  const texts = { a: "\u0000{}", b: '"\\u0000', c: "source:", "\u0000[]": "__proto__\u0000" };
  const { n } = parseWithSource('{"n":{"x":1.0}}') as Record<string, unknown>;
  expect(stringifyWithSource({ ...texts, n })).toBe(`${JSON.stringify(texts).slice(0, -1)},"n":{"x":1.0}}`);
});
