import { execFileSync, spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { majorVersion } from "@gatehousehq/local-stack/services/postgres/placement";
import { releaseImages } from "../../images/release.ts";
import { type Manifest, manifestFile, objectsFile, readManifest } from "../database/contents/releases.ts";
import { startScratchCluster } from "../database/scratch-cluster.ts";
import { mergeUnreleased } from "./merge-unreleased.ts";
import { recordObjects } from "./record-objects.ts";
import { findReleaseFaults, findRemovals } from "./release-faults.ts";
import { findFaults, hashMigrations } from "./released-migrations.ts";
import { setVersion } from "./set-version.ts";

const usage = `npm run release -- <version>    prepare this checkout as the release, and list what remains to be done
npm run release -- --rehearse   upgrade from the release before under traffic, roll back, and upgrade again;
                                with --large on 200,000 runs and 5,000 accounts
npm run release -- --commit     record this commit as that of the newest release, and tag it
npm run release -- --images     build the images of web server and gateway; with --pin, first write the digests of
                                their base images into images/Containerfile
npm run release -- --list       print the version and commit of each release`;

/** What the command cannot do itself. */
const remaining = (version: string) => `
${version} is prepared. What remains:
1. Read the new migrations, and run npm run reset: your .local/ has applied files that no longer exist.
2. npm ci && npm test -- --all
3. npm run release -- --rehearse --large
4. On a quiet machine, the figures of docs/capacity.md: npm run bench -- --peers --only gateway --write docs/capacity.md
5. npm run release -- --images --pin, where a registry of images can be reached, and read the difference.
6. Commit everything, scripts/test/verified.json included.
7. npm run release -- --commit, and commit the manifest. Push both commits and the tag v${version}.
8. npm run release -- --images, and push the images with buildah push.
9. Follow docs/upgrading.md on a staging project, roll back once, and go forward again.`;

const root = process.cwd();
const migrations = path.join(root, "supabase/migrations");
const rehearsal = "scripts/releases/upgrade.fault.test.ts";

try {
  const { values, positionals } = parseArgs({
    options: {
      commit: { type: "boolean" },
      images: { type: "boolean" },
      pin: { type: "boolean" },
      list: { type: "boolean" },
      rehearse: { type: "boolean" },
      large: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
    allowPositionals: true,
  });
  const { help, large, pin, ...commands } = values;
  const [command] = Object.keys(commands);
  const misplaced = (large && command !== "rehearse") || (pin && command !== "images");
  if (help) console.log(usage);
  else if (Object.keys(commands).length + positionals.length !== 1 || misplaced) {
    throw new StackError(usage);
  } else if (command === "commit") await recordCommit();
  else if (command === "images") await releaseImages(await readVersion(), { pin });
  else if (command === "list") await listReleases();
  else if (command === "rehearse") rehearse(large ? "large" : "small");
  else await prepareRelease(positionals[0] ?? "");
} catch (error) {
  console.error(error instanceof StackError ? error.message : messageOf(error));
  process.exitCode = 1;
}

async function prepareRelease(version: string): Promise<void> {
  const [changelog, removals, { merged, releases }] = await Promise.all([
    readFile(path.join(root, "CHANGELOG.md"), "utf8"),
    findRemovals(root),
    readManifest(root),
  ]);
  const earlier = releases.filter((release) => release.version !== version);
  const faults = [
    ...findReleaseFaults(version, { changelog, releases, removals }),
    ...findFaults({ releases: earlier }, await hashMigrations(migrations)),
  ];
  if (git("status", "--porcelain", "supabase/migrations") !== "") {
    faults.push(
      "supabase/migrations has changes that are not committed, and merging could lose them. Commit them first.",
    );
  }
  if (faults.length > 0) throw new StackError(faults.join("\n"));
  const released = new Set(earlier.flatMap((release) => Object.keys(release.migrations)));
  const at = new Date();
  const cluster = await startScratchCluster();
  try {
    const checkout = { migrations, schemas: path.join(root, "supabase/schemas"), released };
    const { written, removed } = await mergeUnreleased(cluster, checkout, { prefix: version.replaceAll(".", "_"), at });
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
  for (const file of await setVersion(root, version, { date: at.toISOString().slice(0, 10) })) {
    console.log(`Wrote ${file}`);
  }
  if (!runNode("scripts/generate.ts", "openapi")) throw new StackError("The OpenAPI documents were not written.");
  compareSpeed(earlier.at(-1));
  console.log(remaining(version));
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
    if (!runNode("scripts/bench/main.ts", ...args)) {
      console.error(`The comparison failed. Repeat it with npm run bench -- ${args.join(" ")}`);
    }
  }
}

function rehearse(size: "small" | "large"): void {
  const args = ["node_modules/vitest/vitest.mjs", "run", "--project", "fault", rehearsal];
  const env = { ...process.env, GATEHOUSE_REHEARSAL: size };
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit", env });
  process.exitCode = status ?? 1;
}

async function recordCommit(): Promise<void> {
  const manifest = await readManifest(root);
  const newest = manifest.releases.at(-1);
  if (newest?.commit !== null) throw new StackError("The newest release has its commit already.");
  if (git("status", "--porcelain") !== "") {
    throw new StackError(`Files are not committed. Commit release ${newest.version} first, then record its commit.`);
  }
  const head = git("rev-parse", "HEAD");
  const faults = findFaults(manifest, await hashMigrations(migrations));
  const tagged = findTag(newest.version);
  if (tagged !== undefined && tagged !== head)
    faults.push(`v${newest.version} names ${tagged}. Delete that tag first.`);
  if (faults.length > 0) throw new StackError(faults.join("\n"));
  newest.commit = head;
  await writeManifest(manifest);
  for (const { version, commit } of manifest.releases) if (commit && !findTag(version)) tag(version, commit);
}

/** Returns the commit that a version's tag names, if there is one. */
function findTag(version: string): string | undefined {
  return git("for-each-ref", "--format=%(*objectname)%(objectname)", `refs/tags/v${version}`).slice(0, 40) || undefined;
}

function tag(version: string, commit: string): void {
  try {
    git("tag", "--annotate", "--message", `Release ${version}`, `v${version}`, commit);
    console.log(`Tagged ${commit} as v${version}`);
  } catch (error) {
    console.error(`The tag v${version} was not made: ${messageOf(error)}`);
    process.exitCode = 1;
  }
}

async function listReleases(): Promise<void> {
  for (const { version, commit } of (await readManifest(root)).releases) console.log(`${version}  ${commit ?? "-"}`);
}

async function readVersion(): Promise<string> {
  return (JSON.parse(await readFile(path.join(root, "package.json"), "utf8")) as { version: string }).version;
}

/** Runs a script of this checkout. @returns whether it succeeded */
function runNode(script: string, ...args: string[]): boolean {
  const { status } = spawnSync(process.execPath, [path.join(root, script), ...args], { cwd: root, stdio: "inherit" });
  return status === 0;
}

function git(...args: string[]): string {
  return execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
}

async function writeManifest(manifest: Manifest): Promise<void> {
  await write(manifestFile, manifest);
}

async function write(file: string, content: unknown): Promise<void> {
  await writeFile(path.join(root, file), `${JSON.stringify(content, null, 2)}\n`);
  console.log(`Wrote ${file}`);
}
