import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { readManifest } from "../database/contents/releases.ts";
import { findReleaseFaults, findRemovals, findUnmarked, type Removal } from "./release-faults.ts";
import { setVersion } from "./set-version.ts";

const release = (version: string, commit: string | null) => ({ version, commit, postgres: 17, migrations: {} });
const source = (releases = [release("0.9.0", "abc")], removals: Removal[] = []) => ({
  changelog: "# Changelog\n\n## [Unreleased]\n\n### Added\n",
  releases,
  removals,
});

test.each(["0.9.1", "0.10.0", "1.0.0"])("accepts release %s after 0.9.0", (version) => {
  expect(findReleaseFaults(version, source())).toEqual([]);
});

test("a listed release is accepted until its commit is recorded", () => {
  const releases = [release("0.9.0", "abc"), release("0.10.0", null)];
  expect(findReleaseFaults("0.10.0", source(releases))).toEqual([]);
  releases[1] = release("0.10.0", "def");
  expect(findReleaseFaults("0.10.0", source(releases))).toEqual(["0.10.0 is released already."]);
});

test.each(["0.8.9", "0.1.0"])("refuses release %s after 0.9.0", (version) => {
  expect(findReleaseFaults(version, source())).toEqual([`${version} is not newer than 0.9.0.`]);
});

test.each(["1.0", "v1.0.0", "next"])("refuses the release %s, which is not a version", (version) => {
  expect(findReleaseFaults(version, source())).toEqual([`${version} is not a version such as 1.2.3.`]);
});

test("refuses a release if the previous release has no recorded commit", () => {
  expect(findReleaseFaults("1.0.0", source([release("0.9.0", null)]))).toEqual([
    "0.9.0 has no commit yet. On its commit, run npm run release -- --commit.",
  ]);
});

test("refuses a release without a changelog entry, and accepts one whose entry has its heading already", () => {
  const empty = "# Changelog\n\n## [Unreleased]\n\n## [0.9.0] - 2026-12-01\n";
  expect(findReleaseFaults("1.0.0", { ...source(), changelog: empty })).toEqual([
    "CHANGELOG.md has no unreleased entries.",
  ]);
  const headed = empty.replace("0.9.0", "1.0.0");
  expect(findReleaseFaults("1.0.0", { ...source(), changelog: headed })).toEqual([]);
  const late = headed.replace("[Unreleased]\n", "[Unreleased]\n\n- Late.\n");
  expect(findReleaseFaults("1.0.0", { ...source(), changelog: late })).toEqual([
    "CHANGELOG.md has unreleased entries: move them under 1.0.0.",
  ]);
});

test.each([
  ["0.9.9", []],
  ["0.10.0", ["remix-app/a.ts has code that goes in 0.10.0: remove it."]],
  ["1.0.0", ["remix-app/a.ts has code that goes in 0.10.0: remove it."]],
])("a release %s reports the code that it should have removed", (version, faults) => {
  const removals = [{ release: "0.10.0", file: "remix-app/a.ts" }];
  expect(findReleaseFaults(version, source(undefined, removals))).toEqual(faults);
});

test("docs/upgrading.md lists the code that each coming release removes, once for each comment that says so", async () => {
  const guide = await readFile("docs/upgrading.md", "utf8");
  const listed = guide.split(/^## /m).flatMap((section) => {
    const [, removedIn] = /^What (\d+\.\d+\.\d+) removes\n/.exec(section) ?? [];
    if (removedIn === undefined) return [];
    return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, file = ""]) => ({ release: removedIn, file }));
  });
  const inOrder = (removals: readonly Removal[]) => removals.map(({ release, file }) => `${release} ${file}`).sort();
  expect(inOrder(listed)).toEqual(inOrder(await findRemovals(".")));
});

test("every comment about an earlier release names the release at which its code goes", async () => {
  const { releases } = await readManifest(".");
  expect(
    await findUnmarked(
      ".",
      releases.map(({ version }) => version),
    ),
  ).toEqual([]);
});

test("a version is set in every package, the lock file, the guides and the changelog, once", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "gatehouse-version-"));
  try {
    const copied = [
      ...["package.json", "package-lock.json", "packages/cli/package.json", "images/gateway/package.json"],
      ...["docs/satellites.md", "deploy/compose/compose.yaml", "deploy/helm/gatehouse/Chart.yaml"],
    ];
    for (const file of [...copied, "README.md", "CHANGELOG.md"]) await cp(file, path.join(root, file));
    const read = (file: string) => readFile(path.join(root, file), "utf8");
    expect(await setVersion(root, "9.8.7", { date: "2027-01-02" })).toEqual([
      ...["images/gateway/package.json", "package.json", "packages/cli/package.json", "package-lock.json", "README.md"],
      ...["deploy/compose/compose.yaml", "docs/satellites.md", "deploy/helm/gatehouse/Chart.yaml"],
      "CHANGELOG.md",
    ]);
    const lock = JSON.parse(await read("package-lock.json"));
    expect([lock.version, lock.packages[""].version, lock.packages["packages/cli"].version]).toEqual(
      Array(3).fill("9.8.7"),
    );
    expect(JSON.parse(await read("packages/cli/package.json")).version).toBe("9.8.7");
    expect(JSON.parse(await read("images/gateway/package.json")).version).toBe("9.8.7");
    expect(await read("docs/satellites.md")).toContain("gatehousehq-satellite-9.8.7.tgz");
    expect(await read("deploy/compose/compose.yaml")).toMatch(/gatehouse-gateway:9\.8\.7.*gatehouse-web:9\.8\.7/s);
    expect(await read("deploy/helm/gatehouse/Chart.yaml")).toMatch(/^version: 9\.8\.7\nappVersion: "9\.8\.7"$/m);
    expect(await read("README.md")).toContain("Status: version 9.8.7 ");
    expect(await read("CHANGELOG.md")).toContain("\n## [Unreleased]\n\n## [9.8.7] - 2027-01-02\n");
    expect(await setVersion(root, "9.8.7", { date: "2027-01-03" })).toEqual([]);
  } finally {
    await rm(root, { recursive: true });
  }
});
