import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { clients, newestManifest, pinnedManifest, readSource, sourceDir, versionOf } from "./clients.ts";
import { clientSnippets } from "./program.ts";

test.for(clients)("the client $name is pinned to an exact version", (client) => {
  expect(versionOf(client)).toMatch(/^\d+\.\d+\.\d+$/);
  expect(existsSync(path.join(sourceDir, client.program))).toBe(true);
});

test("every package that the client suite installs has an exact version", () => {
  const { dependencies, optionalDependencies } = JSON.parse(readSource("js/package.json"));
  for (const version of Object.values({ ...dependencies, ...optionalDependencies }))
    expect(version).toMatch(/^(npm:[^"]+@)?\d+\.\d+\.\d+$/);
  for (const client of clients.filter(({ runtime }) => runtime === "python"))
    expect(pinnedManifest(client)).toMatch(/^(?:[\w-]+(?:\[\w+\])?==\d+\.\d+\.\d+\n)+$/);
  expect(readSource("java/pom.xml").match(/<version>(?!\d+(\.\d+)*<)/g)).toBeNull();
});

test("an update of the tested clients moves exact versions to the newest, and keeps the major version of aliased packages", () => {
  const newest = (name: string) => {
    const client = clients.find((each) => each.name === name);
    return client ? newestManifest(client) : "";
  };
  const { dependencies } = JSON.parse(newest("ai-sdk-6"));
  expect([dependencies.ai, dependencies["ai-6"], dependencies["@ai-sdk/openai-6"]]).toEqual([
    "latest",
    "npm:ai@6",
    "npm:@ai-sdk/openai@3",
  ]);
  expect(newest("pydantic-ai")).toBe("pydantic-ai-slim[openai]\n");
  expect(newest("openai-java").match(/<version>RELEASE</g)).toHaveLength(1);
});

test("the client suite runs every Python snippet and every needs=client snippet of docs/clients.md", () => {
  const marks = clients.flatMap(({ snippet }) => snippet ?? []);
  const marked = clientSnippets().map(({ text }) => marks.filter((mark) => text.includes(mark)));
  expect(marked.flat().sort()).toEqual([...marks].sort());
  for (const found of marked) expect(found).toHaveLength(1);
});

test("the clients guide says for each tested client whether its base URL ends in /v1", () => {
  const guide = readFileSync("docs/clients.md", "utf8");
  const sectionOf = (title: string) => guide.split(`\n## ${title}\n`)[1]?.split("\n## ")[0] ?? "";
  const rows = sectionOf("Base URLs")
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(1);
  for (const row of rows) expect(row).toMatch(/\| (?:yes|no) \|$/);
  // Removes versions and remarks: "AI SDK 6 and 7 (`a` and `b`)", "Codex CLI", "LiteLLM (plain calls)".
  const cells = sectionOf("Tested clients")
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(1);
  const names = cells.flatMap((row) => row.split("|").slice(2, -1)).flatMap((cell) => cell.split(/,(?![^(]*\))/));
  const tested = names.map((name) => name.trim().replace(/(?: \d+ and \d+)? *\(.*\)$/, "")).filter(Boolean);
  expect(tested).toContain("Claude Code");
  for (const name of new Set(tested))
    expect(
      rows.some((row) => row.includes(name)),
      name,
    ).toBe(true);
});

test("every client program in the source folder is part of the client suite", () => {
  const programs = globSync(["js/*.mjs", "python/*_client.py", "java/*.java", "go/*.go"], { cwd: sourceDir });
  const shared = ["js/check.mjs"];
  expect(programs.filter((program) => !shared.includes(program)).sort()).toEqual(
    [...new Set(clients.map(({ program }) => program))].sort(),
  );
});
