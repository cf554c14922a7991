import { describe, expect, test } from "vitest";
import { type Language, readBlocks, renderFault, withoutBlocks } from "./blocks.ts";
import { parseBlock } from "./parse-block.ts";

const block = (language: Language, text: string) => ({ file: "a.md", line: 1, language, text });

describe("readBlocks", () => {
  test("readBlocks finds code blocks in checked languages, with their line numbers, and removes their indentation", () => {
    const text =
      "Text\n\n```sh\nls\n```\n\n   ```ts needs=context\n   if (a) {\n     b();\n   }\n   ```\n\n```mermaid\nx\n```\n";
    expect(readBlocks("a.md", text)).toEqual({
      blocks: [
        { file: "a.md", line: 3, language: "sh", text: "ls\n" },
        { file: "a.md", line: 7, language: "ts", need: "context", text: "if (a) {\n  b();\n}\n" },
      ],
      faults: [],
    });
  });

  test.each(["needs=luck", "hosted,docker", "needs=hosted needs=docker", "needs="])(
    "readBlocks refuses the label %s",
    (label) => {
      const { faults } = readBlocks("a.md", `Text\n\`\`\`sh ${label}\nls\n\`\`\`\n`);
      expect(faults.map(renderFault)).toEqual([expect.stringMatching(/^a\.md:2: .*is not a label/)]);
    },
  );

  test("readBlocks refuses a block whose language is missing or has no check, and accepts a display-only language", () => {
    const text = "```bash\nls\n```\n\n```mermaid\nx\n```\n\n```\nls\n```\n\n```text\nplain\n```\n";
    const { faults } = readBlocks("a.md", text);
    expect(faults.map(renderFault)).toEqual([
      expect.stringContaining("a.md:1: no check covers “bash”"),
      expect.stringContaining("a.md:9: no check covers “”"),
    ]);
  });

  test("readBlocks refuses an unclosed block", () => {
    expect(readBlocks("a.md", "```sh\nls\n").faults).toEqual([
      { file: "a.md", line: 1, message: "the block is not closed" },
    ]);
  });
});

test("withoutBlocks removes code blocks and keeps the line numbers of the other text", () => {
  expect(withoutBlocks("a\n```sh\n`x`\n```\nb")).toBe("a\n\n\n\nb");
});

describe("parseBlock", () => {
  const good: [Language, string][] = [
    ["sh", "for each in 1 2; do echo $each; done\n"],
    ["ts", "const { data } = await call<string>();\n"],
    ["js", "export const a = 1;\n"],
    ["sql", "select 1; select 2;\n"],
    ["json", '{ "a": 1 }\n'],
    ["ini", "# why\nA=1\n\nB_2=smtps://user:password@host:465\n"],
    ["yaml", "apiVersion: gatehouse/v1\n"],
  ];
  test.each(good)("parseBlock accepts valid %s", async (language, text) => {
    expect(await parseBlock(block(language, text))).toBeUndefined();
  });

  const bad: [Language, string][] = [
    ["sh", "for each in 1 2; do\n"],
    ["ts", "const a: = 1;\n"],
    ["js", "const = 1;\n"],
    ["sql", "selec 1;\n"],
    ["json", "{ a: 1 }\n"],
    ["ini", "A=1\nB\n"],
    ["ini", "A=1\nA=2\n"],
    ["yaml", "apiVersion: gatehouse/v1\nplanz: []\n"],
  ];
  test.each(bad)("parseBlock refuses invalid %s", async (language, text) => {
    expect(await parseBlock(block(language, text))).toMatch(/./);
  });
});
