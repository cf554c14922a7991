import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { functions } from "./functions.ts";

const folder = path.resolve(import.meta.dirname, "..");
const entries = globSync("*/index.ts", { cwd: folder }).map((file) => ({
  name: path.dirname(file),
  text: readFileSync(path.join(folder, file), "utf8"),
}));

test("the server has every function that Supabase serves, and answers 404 where a function only does that", () => {
  const notFound = entries.filter(({ text }) => /^serveNotFound\(\);$/m.test(text));
  expect(notFound.length).toBeGreaterThan(0);
  const served = entries.filter((entry) => !notFound.includes(entry)).map(({ name }) => name);
  expect(Object.keys(functions)).toEqual(served.toSorted());
});

test("each function's entry for Supabase serves the handler next to it", () => {
  const served = entries.filter(({ name }) => Object.hasOwn(functions, name));
  for (const { text } of served) {
    expect(text).toContain('import { createHandler } from "./handler.ts";');
    expect(text).toMatch(/^serve\(createHandler/m);
  }
});
