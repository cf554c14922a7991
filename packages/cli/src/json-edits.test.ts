import { describe, expect, test } from "vitest";
import { applyJsonEdits, undoJsonEdits } from "./json-edits.ts";
import { parseJson } from "./json-syntax.ts";

const edits = [
  { path: ["apiKeyHelper"], value: "node helper" },
  { path: ["env", "ANTHROPIC_BASE_URL"], value: "https://ai.example.com" },
];

const commentsOf = (text: string) => text.match(/(?<!:)\/\/[^\n]*|\/\*.*?\*\//g);

describe("edits of a JSON text", () => {
  test("JSON edits keep comments, order, indentation and trailing commas", () => {
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
  ])("JSON edits can be undone, and change nothing when repeated: %j", (source) => {
    const first = applyJsonEdits(source, { edits });
    const value = parseJson(first.text).value as { env: object };
    expect(value).toMatchObject({ apiKeyHelper: "node helper", env: { ANTHROPIC_BASE_URL: "https://ai.example.com" } });
    expect(applyJsonEdits(first.text, { edits, previous: first.undo })).toEqual(first);
    const undone = undoJsonEdits(first.text, first.undo);
    expect(parseJson(undone).value).toEqual(parseJson(source || "{}").value);
  });

  test.each([
    ['{\n  "a": 1 // note\n}\n'],
    ['{\n  "a": 1, // note\n}\n'],
    ["{\n  // only a comment\n}\n"],
    ['{\n  "env": {\n    // nothing yet\n  } // env\n}\n'],
    ['{\n  "env": { // why\n    "X": "1" // x\n  },\n  // last\n  "b": 2\n}\n'],
    ["{}\n"],
  ])("JSON edits keep every comment, and undoing the edits restores the text: %j", (source) => {
    const { text, undo } = applyJsonEdits(source, { edits });
    expect(commentsOf(text)).toEqual(commentsOf(source));
    expect(undoJsonEdits(text, undo)).toBe(source);
  });

  test.each([
    ['"apiKeyHelper": "node helper"', '"apiKeyHelper": "node helper", // added\n  // about z\n  "z": 1'],
    ['"apiKeyHelper": "node helper"', '// above\n  "apiKeyHelper": "node helper", "z": 1'],
    ['"apiKeyHelper": "node helper"', '"apiKeyHelper": "node helper" /* inside */, /* next */ "z": 1'],
  ])("undoing JSON edits keeps comments that were added later: %j changed to %j", (own, changed) => {
    const { text, undo } = applyJsonEdits('{\n  "a": 1\n}\n', { edits: edits.slice(0, 1) });
    const undone = undoJsonEdits(text.replace(own, changed), undo);
    expect(commentsOf(undone)).toEqual(commentsOf(changed));
    expect(parseJson(undone).value).toEqual({ a: 1, z: 1 });
  });

  test("applying newer JSON edits replaces the earlier edits, and undoing them restores the original text", () => {
    const source = '{\n  "apiKeyHelper": "mine"\n}\n';
    const first = applyJsonEdits(source, { edits });
    const next = applyJsonEdits(first.text, {
      edits: [{ path: ["apiKeyHelper"], value: "new" }],
      previous: first.undo,
    });
    expect(next.text).toBe('{\n  "apiKeyHelper": "new"\n}\n');
    expect(undoJsonEdits(next.text, next.undo)).toBe(source);
  });

  test("JSON edits are not undone if somebody has changed the value since", () => {
    const { text, undo } = applyJsonEdits("{}", { edits });
    const changed = text.replace("node helper", "another helper");
    expect(JSON.parse(undoJsonEdits(changed, undo))).toEqual({ apiKeyHelper: "another helper" });
  });

  test.each(["[]", "{", '{"env": 1}', '{"a": 1} x', "{'a': 1}"])("refuses to apply JSON edits to %j", (source) => {
    expect(() => applyJsonEdits(source, { edits })).toThrow(SyntaxError);
  });
});
