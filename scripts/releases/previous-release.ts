import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import path from "node:path";
import { readManifest } from "../database/contents/releases.ts";
import { checkOut, findCommit, readFileAt } from "./check-out.ts";

const fixture = path.resolve(import.meta.dirname, "fixture/migrations");
const migrations = "supabase/migrations";

/** The release that an operator runs before the upgrade, and the migrations of the upgrade. */
export interface PreviousRelease {
  version: string;
  /** The checkout of the release's code. */
  root: string;
  /** A folder with all migrations of the upgraded database. */
  upgraded: string;
  /** The upgrade's migrations that the release lacks. */
  added: string[];
  remove: () => Promise<void>;
}

/**
 * Prepares the release before this checkout: the newest release that lacks one of this checkout's migrations. If every
 * release has all of them, prepares the newest release and adds the migrations in fixture/migrations to the upgrade.
 * @param options.commit replaces the commit recorded in the manifest
 * @returns the reason if the release's code is not available
 */
export async function checkOutPrevious({
  commit,
}: {
  commit?: string | undefined;
} = {}): Promise<PreviousRelease | { unavailable: string }> {
  const { release, added } = await findPrevious();
  const id = commit ?? release.commit;
  if (id === null) return { unavailable: `the manifest records no commit for ${release.version}` };
  const found = await findCommit(id);
  if (found === null) return { unavailable: `commit ${id} of ${release.version} is not in this clone` };
  const missing = findMissingPackages(
    (await readFileAt(found, "package-lock.json")) ?? "{}",
    await readFile("package-lock.json", "utf8"),
  );
  if (missing.length > 0) {
    return { unavailable: `${release.version} needs other packages than are installed: ${missing.join(", ")}` };
  }
  await mkdir(".local", { recursive: true });
  const folder = await mkdtemp(path.resolve(".local/test-release-"));
  const root = path.join(folder, "code");
  await checkOut(found, root);
  await symlink(path.resolve("node_modules"), path.join(root, "node_modules"));
  // Copies the current build to save time. Starting the release rebuilds it if the release's sources differ.
  await cp("build", path.join(root, "build"), { recursive: true }).catch(() => undefined);
  return { version: release.version, root, ...(await gatherMigrations({ folder, root, added })) };
}

/** The Supabase CLI's packages, which no code imports. */
const unimported = /^node_modules\/(supabase|@supabase\/cli-[\w-]+)$/;

/**
 * Lists the packages of `needed` that are missing from `installed` or have an older or incompatible version there
 * (semver.org, 4 and 8). Ignores additional packages in `installed`.
 * @returns `name@version` from `needed`
 */
export function findMissingPackages(needed: string, installed: string): string[] {
  const [wanted, present] = [packagesOf(needed), packagesOf(installed)];
  return Object.entries(wanted)
    .filter(
      ([place, { version }]) => place !== "" && !unimported.test(place) && !isMet(version, present[place]?.version),
    )
    .map(([place, { version }]) => `${place.replace(/^.*node_modules\//, "")}@${version}`);
}

function isMet(needed = "", installed = ""): boolean {
  if (needed === installed) return true;
  const [want, have] = [needed, installed].map((version) =>
    /^(\d+)\.(\d+)\.(\d+)$/.exec(version)?.slice(1).map(Number),
  );
  if (!want || !have) return false;
  const breaking = want.findIndex((part) => part > 0);
  const changed = want.findIndex((part, at) => part !== have[at]);
  return changed > breaking && Number(have[changed]) > Number(want[changed]);
}

function packagesOf(lock: string): Record<string, { version?: string }> {
  return (JSON.parse(lock) as { packages?: Record<string, { version?: string }> }).packages ?? {};
}

/** Prepares this checkout as if it were the previous release. The upgrade then adds only the fixture's migrations. */
export async function takeThisCheckout(): Promise<PreviousRelease> {
  await mkdir(".local", { recursive: true });
  const folder = await mkdtemp(path.resolve(".local/test-release-"));
  const { release } = await findPrevious();
  return {
    version: release.version,
    root: path.resolve("."),
    ...(await gatherMigrations({ folder, root: ".", added: [] })),
  };
}

/** Returns whether this checkout has migrations that the previous release lacks. */
export async function hasNewMigrations(): Promise<boolean> {
  return (await findPrevious()).added.length > 0;
}

async function findPrevious() {
  const files = await readdir(migrations);
  const { releases } = await readManifest(".");
  const lacks = (release: (typeof releases)[number]) => files.filter((file) => !(file in release.migrations));
  const release = releases.findLast((one) => lacks(one).length > 0) ?? releases.at(-1);
  if (!release) throw new Error("The manifest has no release.");
  return { release, added: lacks(release) };
}

async function gatherMigrations({ folder, root, added }: { folder: string; root: string; added: string[] }) {
  const upgraded = path.join(folder, "migrations");
  const before = new Set(await readdir(path.join(root, migrations)));
  await cp(migrations, upgraded, { recursive: true });
  if (added.length === 0) await cp(fixture, upgraded, { recursive: true });
  return {
    upgraded,
    added: (await readdir(upgraded)).filter((file) => !before.has(file)).sort(),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
