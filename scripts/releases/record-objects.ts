import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { splitPrivileges } from "../database/contents/differences.ts";
import { readContents } from "../database/contents/read-contents.ts";
import { expectedObjects, type ObjectChanges, type Objects } from "../database/contents/releases.ts";
import { applyMigrations, listMigrations } from "../database/migrations.ts";
import type { ScratchCluster } from "../database/scratch-cluster.ts";

/** SQL for a project that is configured to grant nothing on objects created in public. */
export const grantNothingByDefault = ["tables", "functions", "sequences"]
  .map(
    (kind) => `alter default privileges in schema public revoke all on ${kind} from anon, authenticated, service_role`,
  )
  .join(";");

/**
 * Applies the migrations one by one and records what each changes, in a project with Supabase's default privileges and
 * in one without them. Privileges that exist in only one of the two are optional.
 * @param recorded what earlier releases recorded, which is kept
 */
export async function recordObjects(
  cluster: ScratchCluster,
  migrations: string,
  recorded: ObjectChanges = {},
): Promise<ObjectChanges> {
  const projects = await createProjects(cluster);
  try {
    const changes = { ...recorded };
    const last = Object.keys(recorded).sort().at(-1) ?? "";
    const all = await listMigrations(migrations);
    const [released, added] = [true, false].map((is) => all.filter(({ version }) => version <= last === is));
    let before: Objects = expectedObjects(recorded, new Set(released?.map(({ version }) => version)));
    if (released && released.length > 0) await projects.migrate(released.map(({ file }) => file));
    for (const { version, file } of added ?? []) {
      const after = await projects.migrate([file]);
      if (!after) continue;
      changes[version] = changesBetween(before, after);
      before = after;
    }
    return changes;
  } finally {
    await projects.close();
  }
}

/** Creates two projects, one with Supabase's default privileges and one without them. */
export async function createProjects(cluster: ScratchCluster) {
  const directory = await mkdtemp(path.join(tmpdir(), "gatehouse-objects-"));
  const [open, closed] = [await cluster.createDatabase(), await cluster.createDatabase()];
  await withDatabase(closed, (client) => client.query(grantNothingByDefault));
  return {
    /**
     * Applies migrations to both projects. @returns their objects, or undefined if the migrations have not yet created
     * `private.describe_objects`
     */
    async migrate(files: readonly string[]): Promise<Objects | undefined> {
      for (const file of files) await copyFile(file, path.join(directory, path.basename(file)));
      // The two must not run concurrently, since both create the cluster's roles.
      const more = await migrateAndDescribe(open, directory);
      const less = await migrateAndDescribe(closed, directory);
      return more && less && withOptionalGrants(more, less);
    },
    close: () => rm(directory, { recursive: true }),
  };
}

async function migrateAndDescribe(dbUrl: string, directory: string): Promise<Objects | undefined> {
  await applyMigrations({ dbUrl, directory });
  return (await readContents({ url: "", secretKey: "", dbUrl })).objects;
}

function changesBetween(before: Objects, after: Objects): ObjectChanges[string] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return Object.fromEntries(
    names.filter((name) => before[name] !== after[name]).map((name) => [name, after[name] ?? null]),
  );
}

function withOptionalGrants(more: Objects, less: Objects): Objects {
  return Object.fromEntries(
    Object.entries(more).map(([name, value]) => {
      if (!name.startsWith("grants ")) return [name, value];
      const required = new Set(splitPrivileges(less[name] ?? "").map(({ privilege }) => privilege));
      const list = splitPrivileges(value).map(({ privilege }) =>
        required.has(privilege) ? privilege : `${privilege}?`,
      );
      return [name, list.join(",")];
    }),
  );
}
