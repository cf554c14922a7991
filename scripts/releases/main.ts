import { execFileSync, spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { messageOf, StackError } from "@gatehouse/local-stack/errors";
import { majorVersion } from "@gatehouse/local-stack/services/postgres/placement";
import { type Manifest, manifestFile, objectsFile, readManifest } from "../database/contents/releases.ts";
import { startScratchCluster } from "../database/scratch-cluster.ts";
import { mergeUnreleased } from "./merge-unreleased.ts";
import { recordObjects } from "./record-objects.ts";
import { findReleaseFaults } from "./release-faults.ts";
import { findFaults, hashMigrations } from "./released-migrations.ts";

const usage = `npm run release -- <version>    merge the unreleased migrations, record them and their objects as this release, and
                                compare the speed of gateway and web server with that of the release before
npm run release -- --commit     enter this commit as that of the newest release`;

const root = process.cwd();
const migrations = path.join(root, "supabase/migrations");

try {
  const { values, positionals } = parseArgs({
    options: { commit: { type: "boolean" }, help: { type: "boolean", short: "h" } },
    allowPositionals: true,
  });
  const [version, ...others] = positionals;
  if (values.help) console.log(usage);
  else if (values.commit && version === undefined) await enterCommit();
  else if (values.commit || version === undefined || others.length > 0) throw new StackError(usage);
  else await recordRelease(version);
} catch (error) {
  console.error(error instanceof StackError ? error.message : messageOf(error));
  process.exitCode = 1;
}

async function recordRelease(version: string): Promise<void> {
  const [packaged, locked, changelog, { merged, releases }] = await Promise.all([
    readVersion("package.json"),
    readVersion("package-lock.json"),
    readFile(path.join(root, "CHANGELOG.md"), "utf8"),
    readManifest(root),
  ]);
  const earlier = releases.filter((release) => release.version !== version);
  const faults = [
    ...findReleaseFaults(version, { packaged, locked, changelog, releases }),
    ...findFaults({ releases: earlier }, await hashMigrations(migrations)),
  ];
  if (faults.length > 0) throw new StackError(faults.join("\n"));
  const released = new Set(earlier.flatMap((release) => Object.keys(release.migrations)));
  const cluster = await startScratchCluster();
  try {
    const checkout = { migrations, schemas: path.join(root, "supabase/schemas"), released };
    const { written, removed } = await mergeUnreleased(cluster, checkout, {
      prefix: version.replaceAll(".", "_"),
      at: new Date(),
    });
    for (const file of written) console.log(`Wrote supabase/migrations/${file}`);
    const release = {
      version,
      commit: null,
      postgres: Number(majorVersion),
      migrations: await hashMigrations(migrations),
    };
    await writeManifest({ merged: [...merged, ...removed], releases: [...earlier, release] });
    await write(objectsFile, await recordObjects(cluster, migrations));
  } finally {
    await cluster.stop();
  }
  compareSpeed(earlier.at(-1));
}

/**
 * Prints the ratios of the speed of gateway and web server to that of the newest earlier release, and how busy the
 * machine was. The reader judges them: the release is recorded already, and on a busy machine the ratios say little.
 */
function compareSpeed(release: Manifest["releases"][number] | undefined): void {
  if (!release?.commit) {
    console.log("The speed is not compared, because no earlier release has a commit.");
    return;
  }
  console.log(`The release is recorded. Comparing its speed with ${release.version}, for about half an hour:`);
  for (const part of ["gateway", "web"]) {
    const args = ["--only", part, "--against", release.commit];
    const bench = path.join(root, "scripts/bench/main.ts");
    const { status } = spawnSync(process.execPath, [bench, ...args], { cwd: root, stdio: "inherit" });
    if (status !== 0) console.error(`The comparison failed. Repeat it with npm run bench -- ${args.join(" ")}`);
  }
}

async function enterCommit(): Promise<void> {
  const manifest = await readManifest(root);
  const newest = manifest.releases.at(-1);
  if (newest?.commit !== null) throw new StackError("The newest release has its commit already.");
  if (git("status", "--porcelain") !== "") {
    throw new StackError(`Files are not committed. Commit release ${newest.version} first, then record its commit.`);
  }
  newest.commit = git("rev-parse", "HEAD");
  await writeManifest(manifest);
}

function git(...args: string[]): string {
  return execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
}

async function readVersion(file: string): Promise<string> {
  return (JSON.parse(await readFile(path.join(root, file), "utf8")) as { version: string }).version;
}

async function writeManifest(manifest: Manifest): Promise<void> {
  await write(manifestFile, manifest);
}

async function write(file: string, content: unknown): Promise<void> {
  await writeFile(path.join(root, file), `${JSON.stringify(content, null, 2)}\n`);
  console.log(`Wrote ${file}`);
}
