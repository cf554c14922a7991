import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { findPhrases, readPhrases } from "./phrases.ts";

const phrases = readPhrases(readFileSync("scripts/lint/phrases.txt", "utf8"));
// Split, so that this file passes the check itself.
const absent = ["no", "body"].join("");

describe("the list of phrases", () => {
  test("finds a listed phrase in a comment, a title, a string and a document", () => {
    for (const text of [
      `// For ${absent}.`,
      `test("${absent} may", () => {});`,
      `const a = '${absent}';`,
      `# ${absent}`,
    ])
      expect(findPhrases(text, phrases)).toEqual([{ line: 1, phrase: absent }]);
  });

  test.each(["/**\n * The call is\n   * over.\n */", "  // The call is\n  // over.", "-- The call is\n-- over."])(
    "finds a listed phrase across two lines: %j",
    (text) => expect(findPhrases(text, phrases)).toMatchObject([{ phrase: ["is", "over"].join(" ") }]),
  );

  test("reports the line of a listed phrase", () => {
    expect(findPhrases(`one\ntwo\n${absent}\n`, phrases)).toEqual([{ line: 3, phrase: absent }]);
  });

  test("the list of phrases accepts plain English", () => {
    const plain = "There is no list. It stands for a model. A stand-in is over 300 lines, and comes to an end.";
    expect(findPhrases(plain, phrases)).toEqual([]);
  });
});

test("rejects a list of phrases with an invalid pattern", () => {
  expect(() => readPhrases("# comment\n(")).toThrow(SyntaxError);
});
