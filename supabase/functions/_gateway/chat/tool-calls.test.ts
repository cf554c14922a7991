import { describe, expect, test } from "vitest";
import { mergeDelta, wholeMessage } from "../../_shared/chat-delta.ts";
import { createToolCallNumbering } from "./tool-calls.ts";

type Entry = Record<string, unknown>;

/** Passes the entries through the numbering, one entry a chunk, all in the same choice. */
function number(...entries: Entry[]) {
  const correct = createToolCallNumbering();
  const copies = structuredClone(entries);
  const changed = copies.map((entry) => correct([{ index: 0, delta: { tool_calls: [entry] } }]));
  return { entries: copies, changed, indexes: copies.map(({ index }) => index), calls: merge(copies) };
}

/** Returns the calls as a client assembles them, joining pieces by index alone. */
function merge(entries: Entry[]): unknown[] {
  const message = {};
  for (const entry of entries) mergeDelta(message, { tool_calls: [{ ...entry, id: undefined }] });
  const { tool_calls = [] } = wholeMessage(message) as { tool_calls?: { function: Entry }[] };
  return tool_calls.map((call) => [call.function.name, call.function.arguments]);
}

const call = (id: string | undefined, name: string | undefined, text: unknown, index?: unknown): Entry => ({
  ...(index === undefined ? {} : { index }),
  ...(id === undefined ? {} : { id, type: "function" }),
  function: { ...(name === undefined ? {} : { name }), arguments: text },
});
const add = (text: string) => ["add", text];

describe("Tool calls that OpenAI would send", () => {
  test("tool calls in OpenAI's format stay unchanged", () => {
    const { changed, indexes } = number(
      call("a", "add", "", 0),
      call(undefined, undefined, '{"a":', 0),
      call(undefined, undefined, "1}", 0),
      call("b", "add", "", 1),
      call(undefined, undefined, "{}", 1),
    );
    expect(changed).toEqual([false, false, false, false, false]);
    expect(indexes).toEqual([0, 0, 0, 1, 1]);
  });

  test("two tool calls in OpenAI's format are kept apart if their pieces arrive alternately", () => {
    const { changed, calls } = number(
      call("a", "add", "", 0),
      call("b", "add", "", 1),
      call(undefined, undefined, '{"a":1}', 0),
      call(undefined, undefined, '{"b":', 1),
      call(undefined, undefined, "", 0),
      call(undefined, undefined, "2}", 1),
    );
    expect(changed.slice(0, 4)).toEqual([false, false, false, false]);
    expect(calls).toEqual([add('{"a":1}'), add('{"b":2}')]);
  });

  test("tool calls stay unchanged if the second call arrives first", () => {
    expect(number(call("b", "add", "{}", 1), call("a", "add", "{}", 0)).changed).toEqual([false, false]);
  });

  test("tool calls are numbered per choice", () => {
    const correct = createToolCallNumbering();
    const choice = (index: number, id: string) => ({ index, delta: { tool_calls: [call(id, "add", "{}", 0)] } });
    expect([correct([choice(0, "a"), choice(1, "b")]), correct([choice(1, "c")])]).toEqual([false, true]);
  });
});

describe("Two tool calls", () => {
  const two = [add('{"a":1}'), add('{"a":2}')];

  // https://github.com/ollama/ollama/issues/15457
  test("two calls that both arrive with index 0 and have different ids get different indexes", () => {
    const { indexes, changed, calls } = number(call("a", "add", '{"a":1}', 0), call("b", "add", '{"a":2}', 0));
    expect([indexes, changed, calls]).toEqual([[0, 1], [false, true], two]);
  });

  test("two calls that both arrive with index 0 and have no arguments get different indexes", () => {
    expect(number(call("a", "add", "", 0), call("b", "add", "", 0)).indexes).toEqual([0, 1]);
  });

  test("two calls that both arrive with index 0 in one chunk get different indexes", () => {
    const tool_calls = [call("a", "add", "{}", 0), call("b", "add", "{}", 0)];
    expect(createToolCallNumbering()([{ delta: { tool_calls } }])).toBe(true);
    expect(tool_calls.map(({ index }) => index)).toEqual([0, 1]);
  });

  test("two calls that both arrive with index 0 and send their arguments in pieces get different indexes", () => {
    const { calls } = number(
      call("a", "add", "", 0),
      call(undefined, undefined, '{"a":1}', 0),
      call("b", "add", '{"a"', 0),
      call(undefined, undefined, ":2}", 0),
    );
    expect(calls).toEqual(two);
  });

  // https://github.com/NousResearch/hermes-agent/issues/62940
  test.for([undefined, ""])(
    "two calls that both arrive with index 0, complete arguments and the id %j get different indexes",
    (id) => {
      const { indexes, calls } = number(call(id, "add", '{"a":1}', 0), call(id, "add", '{"a":2}', 0));
      expect([indexes, calls]).toEqual([[0, 1], two]);
    },
  );

  test.for([0, undefined])("two calls with the same id and complete arguments at index %j stay separate", (index) => {
    expect(number(call("a", "add", '{"a":1}', index), call("a", "add", ' {"a":2}', index)).calls).toEqual([
      add('{"a":1}'),
      add(' {"a":2}'),
    ]);
    expect(number(call("a", "add", { a: 1 }, index), call("a", "add", { a: 2 }, index)).calls).toEqual(two);
    const pieces = [call("a", "add", '{"a"', index), call("a", undefined, ":2}", index)];
    expect(number(call("a", "add", '{"a":1}', index), ...pieces).calls).toEqual(two);
  });

  // https://discuss.ai.google.dev/t/gemini-openai-compatibility-issue-with-tool-call-streaming/59886
  test.for([undefined, null])("two calls that both arrive with index %j get different indexes", (index) => {
    expect(number(call("a", "add", '{"a":1}', index), call("b", "add", '{"a":2}', index)).calls).toEqual(two);
    expect(number(call("", "add", '{"a":1}', index), call("", "add", '{"a":2}', index)).calls).toEqual(two);
    const pieces = [call("a", "add", '{"a"', index), call(undefined, undefined, ":1}", index)];
    expect(number(...pieces, call("b", "add", '{"a":2}', index)).calls).toEqual(two);
  });

  // SGLang sends a name at its tool's index and the arguments at the call's index:
  // https://github.com/sgl-project/sglang/issues/6310
  test("a call's name and arguments stay together if they arrive at different indexes", () => {
    const { indexes, calls } = number(
      call("a", "add", "", 1),
      call(undefined, undefined, '{"a":1}', 0),
      call("b", "add", "", 0),
      call(undefined, undefined, '{"a":2}', 1),
    );
    expect(indexes).toEqual([1, 1, 0, 0]);
    expect(calls).toEqual(two.toReversed());
  });

  test("two calls with the same id at different indexes stay separate", () => {
    const { changed, calls } = number(call("a", "add", '{"a":1}', 0), call("a", "add", '{"a":2}', 1));
    expect([changed, calls]).toEqual([[false, false], two]);
  });

  test("if a call is moved to index 1, a later call that arrives with index 1 stays separate from it", () => {
    const { indexes } = number(
      call("a", "add", "{}", 0),
      call("b", "add", "{}", 0),
      call("c", "add", "", 1),
      call(undefined, undefined, "{}", 1),
    );
    expect(indexes).toEqual([0, 1, 2, 2]);
  });
});

/** Joins the ids and names of each index, as openai-python's accumulate_delta does (lib/streaming/_deltas.py). */
function join(entries: Entry[]): unknown[] {
  const joined: [string, string][] = [];
  for (const { index, id, function: called, custom } of entries as Record<string, Entry>[]) {
    const [ids, names] = joined[Number(index)] ?? ["", ""];
    joined[Number(index)] = [`${ids}${id ?? ""}`, `${names}${(called ?? custom)?.name ?? ""}`];
  }
  return joined;
}

// https://github.com/NousResearch/hermes-agent/pull/12230, https://github.com/mcowger/plexus/issues/719
describe("a tool call's id and name appear once, even if the provider", () => {
  const pieces = ["", '{"a":', "1}"];
  test.for<[string, Entry[], unknown[]]>([
    ["repeats both in every piece", pieces.map((text) => call("a", "add", text, 0)), [["a", "add"]]],
    ["repeats both without an index", pieces.map((text) => call("a", "add", text)), [["a", "add"]]],
    [
      "repeats the name with a new id",
      ['{"a"', ":1", "}"].map((text, at) => call(`c${at}`, "add", text, 0)),
      [["c0", "add"]],
    ],
    ["repeats only the name", pieces.map((text, at) => call(at ? undefined : "a", "add", text, 0)), [["a", "add"]]],
    ["repeats only the id", pieces.map((text, at) => call("a", at ? undefined : "add", text, 0)), [["a", "add"]]],
    ["repeats both after the arguments", ["{}", ""].map((text) => call("a", "add", text, 0)), [["a", "add"]]],
    ["sends empty ones later", pieces.map((text, at) => call(at ? "" : "a", at ? "" : "add", text, 0)), [["a", "add"]]],
    [
      "alternates between two calls",
      pieces.flatMap((text) => [call("a", "add", text, 0), call("b", "sub", text, 1)]),
      [
        ["a", "add"],
        ["b", "sub"],
      ],
    ],
    [
      "puts two calls at the same index",
      ["a", "b"].flatMap((id) => pieces.map((text) => call(id, `f${id}`, text, 0))),
      [
        ["a", "fa"],
        ["b", "fb"],
      ],
    ],
    [
      "calls a custom tool",
      pieces.map((input) => ({ index: 0, id: "a", type: "custom", custom: { name: "run", input } })),
      [["a", "run"]],
    ],
    [
      // https://github.com/continuedev/continue/pull/5849
      "sends the name in pieces and then repeats it",
      [
        call("a", "edit_ex", "", 0),
        call("a", "isting", "", 0),
        call("a", "edit_existing", "{", 0),
        call("a", "edit_existing", "}", 0),
      ],
      [["a", "edit_existing"]],
    ],
    [
      "sends ever longer names",
      [call("a", "edit", "", 0), call("a", "edit_existing", "", 0)],
      [["a", "edit_existing"]],
    ],
  ])("%s", ([, sent, joined]) => {
    const { entries } = number(...sent);
    expect(join(entries)).toEqual(joined);
    const types = Object.groupBy(entries, ({ index }) => String(index));
    for (const each of Object.values(types)) expect(each?.filter(({ type }) => type !== undefined)).toHaveLength(1);
  });
});

describe("keeping the pieces of one tool call together", () => {
  const one = [add('{"a":1}')];

  test.for([0, undefined])(
    "a call that repeats its id and name in every piece, at the index %j, stays one call",
    (index) => {
      const pieces = ['{"a"', ":1", "}"].map((text) => call("a", "add", text, index));
      expect(number(...pieces).calls).toEqual(one);
    },
  );

  test.for([0, undefined])(
    "tool-call pieces that repeat the name and have no id, at the index %j, form one call",
    (index) => {
      const pieces = ['{"a"', ":1", "}"].map((text) => call(undefined, "add", text, index));
      expect(number(...pieces).calls).toEqual(one);
    },
  );

  // https://github.com/vllm-project/vllm/pull/23522
  test("tool-call pieces with the same name and different ids form one call with the first id", () => {
    const { entries, calls } = number(...['{"a"', ":1", "}"].map((text, at) => call(`c${at}`, "add", text, 0)));
    expect([calls, entries.map(({ id }) => id)]).toEqual([one, ["c0", undefined, undefined]]);
  });

  // https://github.com/poolsideai/pool/issues/9
  test("a call whose id changes after its name stays one call", () => {
    const pieces = [call("a", "add", "", 0), call("b", undefined, '{"a"', 0), call("b", undefined, ":1}", 0)];
    expect(number(...pieces).calls).toEqual(one);
  });

  test("a tool call is not split in two if its id arrives after its name", () => {
    expect(number(call(undefined, "add", "", 0), call("a", undefined, '{"a":1}', 0)).indexes).toEqual([0, 0]);
  });

  test("braces in the strings of a call's arguments do not make the call complete", () => {
    const pieces = ['{"a":"}\\"', '}{","b":[{', "}]}"].map((text) => call(undefined, "add", text, 0));
    expect(number(...pieces).indexes).toEqual([0, 0, 0]);
  });

  // https://github.com/ggml-org/llama.cpp/issues/20198
  test("a call's arguments are converted to JSON text if they arrive as an object", () => {
    const { entries, changed } = number(call("a", "add", { a: 1 }, 0));
    expect([entries[0]?.function, changed]).toEqual([{ name: "add", arguments: '{"a":1}' }, [true]]);
  });

  test.for([-1, 128, 2 ** 53, 0.5, "0", {}])("a tool call with the invalid index %j gets a valid index", (index) => {
    expect(number(call("a", "add", "", index), call(undefined, undefined, "{}", index)).indexes).toEqual([0, 0]);
  });

  test("a tool call keeps the index 127, the highest allowed", () => {
    expect(number(call("a", "add", "{}", 127)).changed).toEqual([false]);
  });
});

test.for([null, {}, { delta: null }, { delta: { tool_calls: null } }, { delta: { tool_calls: [null, "x"] } }])(
  "numbering tool calls leaves the choice %j unchanged",
  (choice) => {
    expect(createToolCallNumbering()([choice])).toBe(false);
  },
);

test("numbering tool calls takes time proportional to the number of calls", () => {
  function timeOf(count: number): number {
    const began = performance.now();
    expect(number(...Array.from({ length: count }, (_, at) => call(`c${at}`, "f", "{}", 0))).indexes.at(-1)).toBe(
      count - 1,
    );
    return performance.now() - began;
  }
  // Ten times as many calls take about ten times as long in linear time, and a hundred times as long in quadratic time.
  const few = timeOf(5_000);
  expect(timeOf(50_000)).toBeLessThan(40 * few + 500);
});
