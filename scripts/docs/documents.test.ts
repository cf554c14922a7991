import { globSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { problems } from "../../remix-app/http/problem.ts";
import { errorCodes, GatewayError } from "../../supabase/functions/_gateway/http/errors.ts";
import { type Fault, isRunnable, readBlocks, renderFault } from "./blocks.ts";
import { decisions, guides, readCode, readDocument } from "./documents.ts";
import { notRun } from "./not-run.ts";
import { parseBlock } from "./parse-block.ts";
import { foreignNames, linkFaults, nameFaults, npmFaults, pathFaults } from "./references.ts";
import { readSections, schemaNames, unknownSettings, unwrittenSettings } from "./settings.ts";

const { scripts } = JSON.parse(readDocument("package.json")) as { scripts: Record<string, string> };
const generated = ["node_modules", ".local", "build", "test-results", "bench-results", ".git"];
const surroundings = {
  scripts: Object.keys(scripts),
  topLevel: readdirSync(".").filter((name) => !generated.includes(name)),
};
const readable = (faults: Fault[]) => faults.map(renderFault);

describe("claims in the documents", () => {
  test.each(guides)("the code blocks of %s parse, and each block that is not run has a known reason", async (file) => {
    const { blocks, faults } = readBlocks(file, readDocument(file));
    for (const block of blocks) {
      const message = await parseBlock(block);
      if (message !== undefined) faults.push({ file, line: block.line, message });
    }
    expect(readable(faults)).toEqual([]);
  });

  test("the list of code blocks that the tests do not run identifies each block by its first line", () => {
    const blocks = guides.flatMap((file) => readBlocks(file, readDocument(file)).blocks);
    const named = blocks
      .filter((block) => !isRunnable(block))
      .map(({ file, need, language, text }) => {
        return `${file} ${need ?? language}: ${text.split("\n")[0]}`;
      });
    expect(named).toEqual(notRun);
  });

  test.each([...guides, ...decisions])("%s names only scripts, files and headings that exist", (file) => {
    const text = readDocument(file);
    expect(
      readable([
        ...npmFaults(file, text, surroundings),
        ...linkFaults(file, text, readDocument),
        ...pathFaults(file, text, surroundings),
      ]),
    ).toEqual([]);
  });

  test("the guides name only files, SQL objects and identifiers that the code has", () => {
    const code = readCode();
    expect(readable(guides.flatMap((file) => nameFaults(file, readDocument(file), code)))).toEqual([]);
    const text = guides.map(readDocument).join("\n");
    expect([...foreignNames].filter((name) => !text.includes(name) || code.words.has(name))).toEqual([]);
  });

  test("docs/settings.md and the code name the same settings", () => {
    const file = "docs/settings.md";
    const sections = readSections(readDocument(file));
    const faults = sections.flatMap((section) => unknownSettings(file, section, codeOf(section.heading)));
    const taken = [
      "remix-app/config/env.server.ts",
      "supabase/functions/_gateway/environment.ts",
      "supabase/functions/_gateway/telemetry/settings.ts",
      "supabase/functions/_shared/metrics-access.ts",
      "supabase/functions/_shared/trace-settings.ts",
      "scripts/start/environment.ts",
    ].flatMap((module) => schemaNames(readDocument(module)));
    expect(taken).toContain("SUPABASE_URL");
    expect(readable([...faults, ...unwrittenSettings(file, sections, taken)])).toEqual([]);
  });

  test("docs/errors.md has one entry for each problem code of the platform, with its status", () => {
    const expected = Object.entries(problems).map(([code, { status }]) => [code, String(status)]);
    expect(errorsOf("Platform").sort()).toEqual(expected.sort());
  });

  test("docs/errors.md has one entry for each error code of the gateway, with its status", () => {
    const expected = errorCodes.map((code) => [code, String(new GatewayError(code).status)]);
    expect(errorsOf("AI gateway").sort()).toEqual(expected.sort());
  });
});

/**
 * Returns the code and status of each row below a heading of docs/errors.md. Checks that every row also has its other
 * two columns.
 */
function errorsOf(heading: string): string[][] {
  const sections = readDocument("docs/errors.md").split("\n## ");
  const section = sections.find((part) => part.startsWith(`${heading}\n`)) ?? "";
  const rows = [...section.matchAll(/^\| `(\w+)` \| (\d{3}) \| [^|]+ \| [^|]+ \|$/gm)];
  expect(rows.length).toBe(section.match(/^\| `/gm)?.length);
  return rows.map(([, code = "", status = ""]) => [code, status]);
}

/**
 * Returns the source text in which to look for a section's settings: that of the file or folder in its heading, or all
 * of `scripts`, `e2e` and `supabase` if the heading names neither.
 */
function codeOf(heading: string): string {
  const place = /`([^`]+)`/.exec(heading)?.[1];
  const pattern = place
    ?.replace(/\/$/, "/**/*.ts")
    // Settings that the web server and the functions share.
    .replace(/^(remix-app\/config\/env\.server)\.ts$/, "{$1,supabase/functions/_shared/*-{access,settings}}.ts")
    .replace(/scripts\/start\/.*/, "{scripts/start,packages/local-stack}/**/*.ts");
  return globSync(pattern ?? "{scripts,packages,e2e,supabase}/**/*.ts")
    .map(readDocument)
    .join("\n");
}
