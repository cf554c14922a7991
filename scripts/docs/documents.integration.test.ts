import { withDatabase } from "@gatehousehq/local-stack/database";
import { beforeAll, describe, expect, test } from "vitest";
import { installSdks } from "../clients/sdks/packages.ts";
import { readStack } from "../test/stack.ts";
import { type Block, type Fault, renderFault } from "./blocks.ts";
import { guides, readDocument } from "./documents.ts";
import { openWorkplace, runBlock } from "./run-block.ts";
import { blocksBesideTour } from "./tour.ts";

const stack = readStack();
const runnable = guides
  .map((file) => ({ file, blocks: blocksBesideTour(file, readDocument(file)) }))
  .filter(({ blocks }) => blocks.length > 0);

/** The time limit of one document, whose blocks run one after the other. */
const limitMs = 240_000;
const installLimitMs = 300_000;

// The blocks run without the settings that npm needs to reach its registry.
beforeAll(() => installSdks(), installLimitMs);

describe("commands and snippets of the documents", { timeout: limitMs }, () => {
  test.concurrent.each(runnable)(
    "the code blocks of $file run from top to bottom without an error",
    async ({ file, blocks }) => {
      const workplace = await openWorkplace(stack);
      const faults: Fault[] = [];
      try {
        for (const block of blocks) {
          const message = await runBlock(block, workplace);
          if (message !== undefined) faults.push({ file, line: block.line, message });
        }
      } finally {
        await workplace.remove();
      }
      expect(faults.map(renderFault)).toEqual([]);
    },
  );

  const sample = { file: "sample.md", line: 1 };
  const broken: Block[] = [
    { ...sample, language: "sh", text: "false | cat\n" },
    { ...sample, language: "sh", text: 'curl "$AI/v1/chat/completions" -H "Authorization: Bearer wrong"\n' },
    { ...sample, language: "ts", text: 'const a: number = 1;\nif (a) throw new Error("broken");\n' },
    { ...sample, language: "js", text: 'import "nowhere";\n' },
    { ...sample, language: "sql", text: "insert into ai.plans (id) values (null);\n" },
  ];
  test.each(broken)("reports a failing $language block: $text", async (block) => {
    const workplace = await openWorkplace(stack);
    const message = await runBlock(block, workplace);
    await workplace.remove();
    expect(message).toMatch(/./);
  });

  test("SQL blocks of documents leave no rows behind", async () => {
    const text = "insert into ai.plans (id, name, payer) values ('docs_sample', 'Sample', 'member');\n";
    const workplace = await openWorkplace(stack);
    expect(await runBlock({ ...sample, language: "sql", text }, workplace)).toBeUndefined();
    await workplace.remove();
    const { rows } = await withDatabase(stack.supabase.dbUrl, (client) =>
      client.query("select id from ai.plans where id in ('docs_sample', 'free')"),
    );
    expect(rows).toEqual([{ id: "free" }]);
  });
});
