import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { listFiles } from "../hash-files.ts";
import { busyTests, findChanged, hashParts, parts, productTests, testsOf, tierTests, verifiedAfter } from "./parts.ts";

const everyTest = listFiles(".", ["**/*.test.{ts,tsx}", "e2e/*.spec.ts"]);

describe("the parts of the repository that npm test verifies once", () => {
  test("every test file belongs to the product or to exactly one part", () => {
    const owners = new Map(everyTest.map((file) => [file, [] as string[]]));
    for (const file of listFiles(".", productTests)) owners.get(file)?.push("product");
    for (const part of parts) for (const file of testsOf(part)) owners.get(file)?.push(part.name);
    expect([...owners].filter(([, names]) => names.length !== 1)).toEqual([]);
  });

  test("every pattern of a part, a tier and the product matches a file", () => {
    const patterns = [
      ...parts.flatMap(({ files, tests }) => [...files, ...tests]),
      ...productTests,
      ...Object.values(tierTests),
      ...busyTests,
    ];
    const unmatched = patterns.filter((pattern) => listFiles(".", [pattern.replace(/^!/, "")]).length === 0);
    expect(unmatched).toEqual([]);
  });

  test("a part changes with its own tests", () => {
    for (const { name, files, tests } of parts) {
      const own = new Set(listFiles(".", files));
      expect(
        listFiles(".", tests).filter((file) => !own.has(file)),
        name,
      ).toEqual([]);
    }
  });

  test("only parts whose hash differs from the verified one have changed", async () => {
    const hashes = await hashParts();
    expect(findChanged(hashes, hashes)).toEqual([]);
    const names = (verified: Record<string, string>) => findChanged(hashes, verified).map(({ name }) => name);
    expect(names({ ...hashes, "identity server": "0" })).toEqual(["identity server"]);
    expect(names({})).toEqual(parts.map(({ name }) => name));
  });

  test.for([
    ["packages/local-stack/services/identity/core/pkce.ts", ["identity server"]],
    ["packages/local-stack/services/gateway/app.ts", ["local stack"]],
    ["supabase/migrations/20270101000000_more.sql", ["migrations", "upgrade and rollback", "backup"]],
    ["scripts/bench/main.ts", ["bench"]],
    ["packages/local-stack/services/functions/response-loops.ts", ["local stack", "hosted Deno"]],
    ["remix-app/routes/home.tsx", []],
    ["scripts/test/people.ts", []],
  ] as const)("a changed line in %s changes the parts %s", async ([file, changed]) => {
    const root = mkdtempSync(path.join(tmpdir(), "gatehouse-parts-"));
    try {
      mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
      writeFileSync(path.join(root, file), "one line\n");
      const before = await hashParts(root);
      writeFileSync(path.join(root, file), "one line\nanother\n");
      expect(findChanged(await hashParts(root), before).map(({ name }) => name)).toEqual(changed);
    } finally {
      rmSync(root, { recursive: true });
    }
  });

  test("a part is verified once all its test files and its command have passed", () => {
    const hashes = Object.fromEntries(parts.map(({ name }) => [name, `hash of ${name}`]));
    const all = new Set([...parts.flatMap(testsOf), "soak", "gallery", "hosted"]);
    expect(verifiedAfter(hashes, all)).toEqual(hashes);
    const without = (one: string) => {
      const verified = verifiedAfter(hashes, new Set([...all].filter((name) => name !== one)));
      return parts.map(({ name }) => name).filter((name) => !(name in verified));
    };
    expect(without("soak")).toEqual(["soak"]);
    expect(without("scripts/soak/journal.test.ts")).toEqual(["soak"]);
    expect(without("packages/local-stack/contract/totp.test.ts")).toEqual(["identity server"]);
  });
});
