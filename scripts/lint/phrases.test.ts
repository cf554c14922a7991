import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { findPhrases, readPhrases } from "./phrases.ts";

const phrases = readPhrases(readFileSync("scripts/lint/phrases.txt", "utf8"));
// Split, so that the lint does not find the phrase in this file.
const absent = ["no", "body"].join("");

describe("the lint's list of discouraged phrases", () => {
  test("the lint finds a discouraged phrase in a comment, a title, a string and a document", () => {
    for (const text of [
      `// For ${absent}.`,
      `test("${absent} may", () => {});`,
      `const a = '${absent}';`,
      `# ${absent}`,
    ])
      expect(findPhrases(text, phrases)).toEqual([{ line: 1, phrase: absent }]);
  });

  test.each(["/**\n * The call is\n   * over.\n */", "  // The call is\n  // over.", "-- The call is\n-- over."])(
    "the lint finds a discouraged phrase that continues on the next line: %j",
    (text) => expect(findPhrases(text, phrases)).toMatchObject([{ phrase: ["is", "over"].join(" ") }]),
  );

  test("the lint reports the line of a discouraged phrase", () => {
    expect(findPhrases(`one\ntwo\n${absent}\n`, phrases)).toEqual([{ line: 3, phrase: absent }]);
  });

  test("the lint's list of discouraged phrases accepts plain English", () => {
    const plain = "There is no list. It stands for a model. A stand-in is over 300 lines, and comes to an end.";
    expect(findPhrases(plain, phrases)).toEqual([]);
  });
});

test("rejects a list of discouraged phrases that contains an invalid pattern", () => {
  expect(() => readPhrases("# comment\n(")).toThrow(SyntaxError);
});
