import { describe, expect, test } from "vitest";
import { applyJsonEdits, undoJsonEdits } from "./json-edits.ts";
import { parseJson } from "./json-syntax.ts";

const edits = [
  { path: ["apiKeyHelper"], value: "node helper" },
  { path: ["env", "ANTHROPIC_BASE_URL"], value: "https://ai.example.com" },
];

describe("edits of a JSON text", () => {
  test("keep comments, order, indentation and trailing commas", () => {
    const source = '{\n    // mine\n    "model": "opus", /* kept */\n    "env": {\n        "A": "1",\n    },\n}\n';
    const { text } = applyJsonEdits(source, { edits });
    expect(text).toBe(
      '{\n    // mine\n    "model": "opus", /* kept */\n    "env": {\n        "A": "1",\n        "ANTHROPIC_BASE_URL": "https://ai.example.com",\n    },\n    "apiKeyHelper": "node helper",\n}\n',
    );
  });

  test.each([
    [""],
    ["{}\n"],
    ['{ "env": {} }'],
    ['{"a": [1, {"b": 2}], "env": {"A": "1"}}\n'],
    ['{\n  "apiKeyHelper": "old",\n  "env": { "ANTHROPIC_BASE_URL": "https://old.example" },\n  "z": "\\u0041,}"\n}\n'],
    ['{\r\n\t"permissions": { "allow": [] }\r\n}\r\n'],
    ['{\n  "z": 1, // last\n}\n'],
  ])("are undone, and made twice they change nothing: %j", (source) => {
    const first = applyJsonEdits(source, { edits });
    const value = parseJson(first.text).value as { env: object };
    expect(value).toMatchObject({ apiKeyHelper: "node helper", env: { ANTHROPIC_BASE_URL: "https://ai.example.com" } });
    expect(applyJsonEdits(first.text, { edits, earlier: first.undo })).toEqual(first);
    const undone = undoJsonEdits(first.text, first.undo);
    expect(parseJson(undone).value).toEqual(parseJson(source || "{}").value);
  });

  test("of a later version replace those of an earlier one", () => {
    const source = '{\n  "apiKeyHelper": "mine"\n}\n';
    const first = applyJsonEdits(source, { edits });
    const next = applyJsonEdits(first.text, { edits: [{ path: ["apiKeyHelper"], value: "new" }], earlier: first.undo });
    expect(next.text).toBe('{\n  "apiKeyHelper": "new"\n}\n');
    expect(undoJsonEdits(next.text, next.undo)).toBe(source);
  });

  test("are not undone where somebody has changed the value since", () => {
    const { text, undo } = applyJsonEdits("{}", { edits });
    const changed = text.replace("node helper", "another helper");
    expect(JSON.parse(undoJsonEdits(changed, undo))).toEqual({ apiKeyHelper: "another helper" });
  });

  test.each(["[]", "{", '{"env": 1}', '{"a": 1} x', "{'a': 1}"])("are refused for %j", (source) => {
    expect(() => applyJsonEdits(source, { edits })).toThrow(SyntaxError);
  });
});
