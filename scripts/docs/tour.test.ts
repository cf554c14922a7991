import { expect, test } from "vitest";
import { blocksBesideTour, readTour } from "./tour.ts";

const text =
  "# A\n\n**Not here**\n\n## The tour\n\n1. Press **One** and **Two**:\n\n   ```sh\n   echo **no**\n   ```\n2. **Three**\n\n## After\n\n**Nor here**\n";

test("readTour reads only the bold words and code blocks of the section that contains the tour, in order", () => {
  expect(readTour("a.md", text, "The tour")).toEqual([
    { kind: "words", words: "One" },
    { kind: "words", words: "Two" },
    { kind: "block", block: { file: "a.md", line: 9, language: "sh", text: "echo **no**\n" } },
    { kind: "words", words: "Three" },
  ]);
});

test("readTour throws if the document has no tour section", () => {
  expect(() => readTour("a.md", text, "Five minutes")).toThrow("no section");
});

test("blocksBesideTour returns the runnable blocks outside the tour, and all runnable blocks of other documents", () => {
  const more = `${text}\n\`\`\`sh\nls\n\`\`\`\n\n\`\`\`sh needs=docker\ndocker ps\n\`\`\`\n`;
  const textsOf = (file: string) =>
    blocksBesideTour(file, more, { file: "a.md", heading: "The tour" }).map((block) => block.text);
  expect(textsOf("a.md")).toEqual(["ls\n"]);
  expect(textsOf("b.md")).toEqual(["echo **no**\n", "ls\n"]);
});
