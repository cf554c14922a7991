import { expect, test } from "vitest";
import { findReleaseFaults } from "./release-faults.ts";

const release = (version: string, commit: string | null) => ({ version, commit, postgres: 17, migrations: {} });
const source = (version: string, releases = [release("0.9.0", "abc")]) => ({
  packaged: version,
  locked: version,
  changelog: `# Changelog\n\n## [Unreleased]\n\n## [${version}] - 2026-12-01\n`,
  releases,
});

test.each(["0.9.1", "0.10.0", "1.0.0"])("accepts release %s after 0.9.0", (version) => {
  expect(findReleaseFaults(version, source(version))).toEqual([]);
});

test("a listed release is accepted until its commit is recorded", () => {
  const releases = [release("0.9.0", "abc"), release("0.10.0", null)];
  expect(findReleaseFaults("0.10.0", source("0.10.0", releases))).toEqual([]);
  releases[1] = release("0.10.0", "def");
  expect(findReleaseFaults("0.10.0", source("0.10.0", releases))).toEqual(["0.10.0 is released already."]);
});

test.each(["0.8.9", "0.1.0"])("refuses release %s after 0.9.0", (version) => {
  expect(findReleaseFaults(version, source(version))).toEqual([`${version} is not newer than 0.9.0.`]);
});

test.each(["1.0", "v1.0.0", "next"])("refuses the release %s, which is not a version", (version) => {
  expect(findReleaseFaults(version, source(version))).toEqual([`${version} is not a version such as 1.2.3.`]);
});

test("refuses a release if the previous release has no recorded commit", () => {
  expect(findReleaseFaults("1.0.0", source("1.0.0", [release("0.9.0", null)]))).toEqual([
    "0.9.0 has no commit yet. On its commit, run npm run release -- --commit.",
  ]);
});

test("reports each file whose version differs from the release's, and a missing changelog entry", () => {
  const stale = { ...source("1.0.0"), packaged: "0.9.0", locked: "0.9.1", changelog: "## [Unreleased]\n" };
  expect(findReleaseFaults("1.0.0", stale)).toEqual([
    "package.json has version 0.9.0. Run npm version 1.0.0 --no-git-tag-version.",
    "package-lock.json has version 0.9.1. Run npm version 1.0.0 --no-git-tag-version.",
    'CHANGELOG.md has no entry for it. Add "## [1.0.0] - <date>".',
  ]);
});
