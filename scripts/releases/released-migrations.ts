import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Manifest } from "../database/contents/releases.ts";
import { listMigrations } from "../database/migrations.ts";

/** Returns the SHA-256 of each migration in a directory, by file name. */
export async function hashMigrations(directory: string): Promise<Record<string, string>> {
  const files = await listMigrations(directory);
  return Object.fromEntries(
    await Promise.all(
      files.map(async ({ file }) => [
        path.basename(file),
        createHash("sha256")
          .update(await readFile(file))
          .digest("hex"),
      ]),
    ),
  );
}

/**
 * Returns one line for each released migration that was changed, renamed or removed, and for each new one that is dated
 * too early.
 */
export function findFaults(
  { releases }: Pick<Manifest, "releases">,
  hashes: Readonly<Record<string, string>>,
): string[] {
  const released = Object.assign({}, ...releases.map(({ migrations }) => migrations)) as Record<string, string>;
  const newest = Object.keys(released).sort().at(-1) ?? "";
  const added = Object.keys(hashes).filter((file) => !(file in released));
  return [
    ...Object.entries(released).flatMap(([file, hash]) => {
      if (hashes[file] === hash) return [];
      if (file in hashes) return [`${file} was changed after its release.`];
      const renamed = added.find((name) => hashes[name] === hash);
      return [
        renamed ? `${file} was renamed to ${renamed} after its release.` : `${file} was removed after its release.`,
      ];
    }),
    ...added
      .filter((file) => file < newest && !Object.values(released).includes(hashes[file] ?? ""))
      .map((file) => `${file} is older than ${newest}, which is released: give it a later date.`),
  ];
}
