import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { listFiles } from "../hash-files.ts";

const unreleased = "\n## [Unreleased]\n";
const packages = ["package.json", "packages/*/package.json", "images/*/package.json"];
/** What names the version in text: the README's status, and the packages and images in the guides and compose.yaml. */
const texts = ["README.md", "docs/*.md", "scripts/docs/not-run.ts", "deploy/compose/compose.yaml"];

/**
 * Writes a version wherever the checkout states it, and moves the changelog's unreleased entries under it. A repeated
 * call changes nothing.
 * @param options.date the day of the release, as `YYYY-MM-DD`
 * @returns the changed files
 */
export async function setVersion(root: string, version: string, { date }: { date: string }): Promise<string[]> {
  const changed: string[] = [];
  const edit = async (file: string, change: (text: string) => string) => {
    const text = await readFile(path.join(root, file), "utf8");
    const next = change(text);
    if (next === text) return;
    await writeFile(path.join(root, file), next);
    changed.push(file);
  };
  for (const file of listFiles(root, packages)) await edit(file, (text) => withVersion(text, version));
  await edit("package-lock.json", (text) => withLockedVersions(text, version));
  for (const file of listFiles(root, texts)) {
    await edit(file, (text) =>
      text
        .replaceAll(/(gatehousehq-(?:cli|satellite))-\d+\.\d+\.\d+\.tgz/g, `$1-${version}.tgz`)
        .replaceAll(/(gatehouse-(?:web|gateway)):\d+\.\d+\.\d+/g, `$1:${version}`)
        .replace(/^(Status: version )\d+\.\d+\.\d+/m, `$1${version}`),
    );
  }
  await edit("deploy/helm/gatehouse/Chart.yaml", (text) =>
    text.replace(/^version: .*$/m, `version: ${version}`).replace(/^appVersion: .*$/m, `appVersion: "${version}"`),
  );
  await edit("CHANGELOG.md", (text) =>
    text.includes(`\n## [${version}] - `)
      ? text
      : text.replace(unreleased, `${unreleased}\n## [${version}] - ${date}\n`),
  );
  return changed;
}

/** Replaces the version of a package, and keeps the file's form. */
function withVersion(text: string, version: string): string {
  return text.replace(/^( {2}"version": ")[^"]+/m, `$1${version}`);
}

/** Replaces the versions of this repository's own packages in the lock file. */
function withLockedVersions(text: string, version: string): string {
  const lock = JSON.parse(text) as { version: string; packages: Record<string, { version?: string }> };
  lock.version = version;
  for (const [place, own] of Object.entries(lock.packages)) {
    if (!place.includes("node_modules") && own.version !== undefined) own.version = version;
  }
  return `${JSON.stringify(lock, null, 2)}\n`;
}
