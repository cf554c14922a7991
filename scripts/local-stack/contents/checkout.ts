import path from "node:path";
import { startScratchCluster } from "../../database/scratch-cluster.ts";
import { recordObjects } from "../../releases/record-objects.ts";
import { listMigrations } from "../migrations.ts";
import { type Checkout, compareContents, type Difference } from "./differences.ts";
import { type Contents, type Project, readContents } from "./read-contents.ts";
import { readManifest, readObjectChanges } from "./releases.ts";

/**
 * Compares a project's database with the objects that the checkout's migrations create. Changes nothing.
 * @throws StackError if the project cannot be queried
 */
export async function findContentDifferences(root: string, project: Project): Promise<Difference[]> {
  const contents = await readContents(project);
  return compareContents(contents, await readCheckout(root, contents));
}

/**
 * Reads the checkout's migrations and the objects that each changes, for a comparison with `contents`. Releases record
 * these objects. Between releases, applies the migrations to a temporary Postgres to find them, unless `contents` has no
 * objects to compare.
 */
export async function readCheckout(root: string, { objects }: Pick<Contents, "objects">): Promise<Checkout> {
  const directory = path.join(root, "supabase/migrations");
  const [migrations, recorded, manifest] = await Promise.all([
    listMigrations(directory),
    readObjectChanges(root),
    readManifest(root),
  ]);
  const newest = Object.keys(recorded).sort().at(-1) ?? "";
  const isReleased = migrations.every(({ version }) => version <= newest);
  if (isReleased || !objects) return { migrations, changes: recorded, manifest };
  const cluster = await startScratchCluster();
  try {
    return { migrations, changes: await recordObjects(cluster, directory, recorded), manifest };
  } finally {
    await cluster.stop();
  }
}
