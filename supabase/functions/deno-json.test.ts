import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const json = (url: string) => JSON.parse(readFileSync(new URL(url, import.meta.url), "utf8"));
const imports: Record<string, string> = json("./deno.json").imports;
const { dependencies } = json("../../package.json");

test("the edge functions use the same package versions as package.json", () => {
  const pinned = Object.keys(imports).map((name) => [name, `npm:${name}@${dependencies[name]}`]);
  expect(imports).toEqual(Object.fromEntries(pinned));
});

test("the gateway's image installs exactly the packages of the edge functions", () => {
  const installed: Record<string, string> = json("../../images/gateway/package.json").dependencies;
  const pinned = Object.entries(installed).map(([name, version]) => [name, `npm:${name}@${version}`]);
  expect(Object.fromEntries(pinned)).toEqual(imports);
});

test("no import key in deno.json is a prefix of another, because the functions' bundler matches keys by prefix", () => {
  const keys = Object.keys(imports);
  for (const key of keys) expect(keys.filter((other) => other.startsWith(key))).toEqual([key]);
});
