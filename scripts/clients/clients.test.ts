import { existsSync, globSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { clients, readManifest, sourceDir, versionOf } from "./clients.ts";

test.for(clients)("$name is pinned to an exact version", (client) => {
  expect(versionOf(client)).toMatch(/^\d+\.\d+\.\d+$/);
  expect(existsSync(path.join(sourceDir, client.program))).toBe(true);
});

test("what is installed with clients is pinned, too", () => {
  const manifests = new Map(clients.map((client) => [client.manifest, readManifest(client)]));
  const { dependencies } = JSON.parse(manifests.get("js/package.json") ?? "") as Record<string, object>;
  for (const version of Object.values(dependencies ?? {})) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  for (const [manifest, text] of manifests) {
    if (manifest.endsWith(".txt")) expect(text).toMatch(/^(?:[\w-]+(?:\[\w+\])?==\d+\.\d+\.\d+\n)+$/);
  }
  expect(manifests.get("java/pom.xml")?.match(/<version>(?!\d+(\.\d+)*<)/g)).toBeNull();
});

test("every program is run", () => {
  const programs = globSync(["js/*.mjs", "python/*_client.py", "java/*.java"], { cwd: sourceDir });
  const shared = ["js/check.mjs"];
  expect(programs.filter((program) => !shared.includes(program)).sort()).toEqual(
    clients.map(({ program }) => program).sort(),
  );
});
