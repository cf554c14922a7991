import { readFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";

const manifest = z.strictObject({
  /** The versions of migrations that were never released, because they were merged into other files. */
  merged: z.array(z.string().regex(/^\d{14}$/)),
  /** Newest last. */
  releases: z.array(
    z.strictObject({
      version: z.string().regex(/^\d+\.\d+\.\d+$/),
      /** Null until `npm run release -- --commit` records the release's commit. */
      commit: z
        .string()
        .regex(/^[0-9a-f]{40}$/)
        .nullable(),
      /** Postgres's major version. */
      postgres: z.int(),
      /** The SHA-256 of each migration, by file name. */
      migrations: z.record(z.string(), z.string().regex(/^[0-9a-f]{64}$/)),
    }),
  ),
});
/**
 * The objects that each migration changed, by the migration's version. Each object has the hash of its definition, or
 * null if the migration dropped it.
 */
const objectChanges = z.record(z.string().regex(/^\d{14}$/), z.record(z.string(), z.string().nullable()));

export type Manifest = z.infer<typeof manifest>;
export type ObjectChanges = z.infer<typeof objectChanges>;
/** Maps the name of each object to the hash of its definition, or the name of a grant to its privileges. */
export type Objects = Record<string, string>;

export const manifestFile = "supabase/releases/manifest.json";
export const objectsFile = "supabase/releases/objects.json";

export async function readManifest(root: string): Promise<Manifest> {
  return manifest.parse(JSON.parse(await readFile(path.join(root, manifestFile), "utf8")));
}

/** Reads which objects each migration changes, from a checkout of the repository. */
export async function readObjectChanges(root: string): Promise<ObjectChanges> {
  return parseObjectChanges(await readFile(path.join(root, objectsFile), "utf8"));
}

/** @throws ZodError if the text does not have the form of `objectsFile` */
export function parseObjectChanges(text: string): ObjectChanges {
  return objectChanges.parse(JSON.parse(text));
}

/** Returns the objects of a database to which exactly these migrations have been applied. */
export function expectedObjects(changes: ObjectChanges, applied: ReadonlySet<string>): Objects {
  const expected: Objects = {};
  const others = new Set<string>();
  for (const version of Object.keys(changes).sort()) {
    for (const [name, value] of Object.entries(changes[version] ?? {})) {
      if (!applied.has(version)) others.add(name);
      else if (value === null) delete expected[name];
      else expected[name] = value;
    }
  }
  // An applied migration may have changed parts, such as columns and grants, of an object that an unapplied migration
  // creates. Leaves these parts out, because the object does not exist.
  const isOfOthers = partsOf([...others].filter((name) => !(name in expected)));
  return Object.fromEntries(Object.entries(expected).filter(([name]) => !isOfOthers(name)));
}

export const grantsPrefix = "grants to ";

/** Returns a predicate for objects that belong to one of these tables, views or functions. */
export function partsOf(names: readonly string[]): (name: string) => boolean {
  const wholes = names.flatMap((name) => /^(?:function|procedure|table|view) (.+)$/.exec(name)?.[1] ?? []);
  return (name) =>
    wholes.some(
      (whole) =>
        name.endsWith(` on ${whole}`) ||
        name.startsWith(`column ${whole}.`) ||
        (name.startsWith(grantsPrefix) && name.endsWith(` ${whole}`)),
    );
}
