import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Manifest } from "../database/contents/releases.ts";
import { listFiles } from "../hash-files.ts";

/** Code that an earlier release needs, and the release that removes it. */
export type Removal = { release: string; file: string };

/** The product's code, without tests. */
const product = [
  "{remix-app,satellites}/**/*.{ts,tsx,js}",
  "packages/{cli,satellite}/**/*.ts",
  "supabase/functions/**/*.ts",
  "supabase/schemas/**/*.sql",
  "!**/*.test.{ts,tsx}",
];
const marker = /\b(?:until|goes in) (\d+\.\d+\.\d+)\b/gi;

/** Finds the comments that name the release at which code goes: "Until 0.3.0: …" or "goes in 0.3.0". */
export async function findRemovals(root: string): Promise<Removal[]> {
  const found = listFiles(root, product).map(async (file) => {
    const text = await readFile(path.join(root, file), "utf8");
    return [...text.matchAll(marker)].map(([, release = ""]) => ({ release, file }));
  });
  return (await Promise.all(found)).flat();
}

/** Finds the comments that mention an earlier release without naming the release at which their code goes. */
export async function findUnmarked(root: string, versions: readonly string[]): Promise<string[]> {
  const mention = new RegExp(`(?<![\\d.])(?:${versions.map((one) => one.replaceAll(".", "\\.")).join("|")})(?![\\d.])`);
  const found = listFiles(root, product).map(async (file) => {
    const text = await readFile(path.join(root, file), "utf8");
    const comments = text.match(/(?:^[ \t]*(?:--|\/\/|\/?\*+).*\n)+/gm) ?? [];
    return comments.filter((one) => mention.test(one) && !one.match(marker)).map((one) => `${file}: ${one.trim()}`);
  });
  return (await Promise.all(found)).flat();
}

/** Returns the reasons why a version cannot be recorded as released, one line for each. */
export function findReleaseFaults(
  version: string,
  { changelog, releases, removals }: { changelog: string; removals: readonly Removal[] } & Pick<Manifest, "releases">,
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
  const [isListed, hasEntries] = [
    changelog.includes(`\n## [${version}] - `),
    /\n## \[Unreleased\]\n+(?!## )\S/.test(changelog),
  ];
  if (!isListed && !hasEntries) faults.push("CHANGELOG.md has no unreleased entries.");
  if (isListed && hasEntries) faults.push(`CHANGELOG.md has unreleased entries: move them under ${version}.`);
  for (const { release, file } of removals) {
    if (compareVersions(release, version) <= 0) faults.push(`${file} has code that goes in ${release}: remove it.`);
  }
  return faults;
}

function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
