import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { hashFiles } from "../../hash-files.ts";
import { recordObjects } from "../../releases/record-objects.ts";
import { listMigrations } from "../migrations.ts";
import { startScratchCluster } from "../scratch-cluster.ts";
import { type Checkout, compareContents, type Difference } from "./differences.ts";
import { type Contents, type Project, readContents } from "./read-contents.ts";
import { type ObjectChanges, objectsFile, parseObjectChanges, readManifest, readObjectChanges } from "./releases.ts";

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
  return { migrations, changes: await readUnreleased(root, recorded), manifest };
}

/** Returns what the migrations change. Keeps it below `.local/` for the next call with the same migrations. */
async function readUnreleased(root: string, recorded: ObjectChanges): Promise<ObjectChanges> {
  const folder = path.join(root, ".local/objects");
  const file = path.join(folder, `${await hashFiles(root, ["supabase/migrations/*.sql", objectsFile])}.json`);
  if (existsSync(file)) return parseObjectChanges(await readFile(file, "utf8"));
  const cluster = await startScratchCluster();
  try {
    const changes = await recordObjects(cluster, path.join(root, "supabase/migrations"), recorded);
    await mkdir(folder, { recursive: true });
    const draft = `${file}.${process.pid}`;
    await writeFile(draft, JSON.stringify(changes));
    await rename(draft, file);
    const others = (await readdir(folder)).filter((name) => name.endsWith(".json") && name !== path.basename(file));
    for (const name of others) await rm(path.join(folder, name), { force: true });
    return changes;
  } finally {
    await cluster.stop();
  }
}
