import type { Manifest } from "../database/contents/releases.ts";

/** The sources of a release: the versions in package.json and package-lock.json, and the changelog's text. */
export type ReleaseSource = { packaged: string; locked: string; changelog: string };

/** Returns the reasons why a version cannot be recorded as released, one line for each. */
export function findReleaseFaults(
  version: string,
  { packaged, locked, changelog, releases }: ReleaseSource & Pick<Manifest, "releases">,
): string[] {
  if (!/^\d+\.\d+\.\d+$/.test(version)) return [`${version} is not a version such as 1.2.3.`];
  const earlier = releases.filter((release) => release.version !== version);
  const own = releases.find((release) => release.version === version);
  const last = earlier.at(-1);
  const faults: string[] = [];
  if (own && own.commit !== null) faults.push(`${version} is released already.`);
  if (last && compareVersions(version, last.version) <= 0) faults.push(`${version} is not newer than ${last.version}.`);
  if (last?.commit === null) {
    faults.push(`${last.version} has no commit yet. On its commit, run npm run release -- --commit.`);
  }
  for (const [file, found] of Object.entries({ "package.json": packaged, "package-lock.json": locked })) {
    if (found !== version) {
      faults.push(`${file} has version ${found}. Run npm version ${version} --no-git-tag-version.`);
    }
  }
  if (!changelog.includes(`\n## [${version}] - `)) {
    faults.push(`CHANGELOG.md has no entry for it. Add "## [${version}] - <date>".`);
  }
  return faults;
}

function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
