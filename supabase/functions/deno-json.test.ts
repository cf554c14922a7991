import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const json = (url: string) => JSON.parse(readFileSync(new URL(url, import.meta.url), "utf8"));
const imports: Record<string, string> = json("./deno.json").imports;
const { dependencies } = json("../../package.json");

test("the edge functions use the same package versions as package.json", () => {
  const pinned = Object.keys(imports).map((name) => [name, `npm:${name}@${dependencies[name]}`]);
  expect(imports).toEqual(Object.fromEntries(pinned));
});

test("no import key in deno.json is a prefix of another, because the functions' bundler matches keys by prefix", () => {
  const keys = Object.keys(imports);
  for (const key of keys) expect(keys.filter((other) => other.startsWith(key))).toEqual([key]);
});
