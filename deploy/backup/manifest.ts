import { StackError } from "@gatehousehq/local-stack/errors";
import { majorVersion } from "@gatehousehq/local-stack/services/postgres/placement";
import type pg from "pg";
import { z } from "zod";
import packageJson from "../../package.json" with { type: "json" };
import { nothingChanged } from "./programs.ts";

/** The version of this checkout. */
export const product = packageJson.version;

/** Changes whenever the contents of archives do, including the names of figures. */
export const formatVersion = 1 as const;

const tableName = z.string().regex(/^("[^"]+"|\w+)\.("[^"]+"|\w+)$/);

/** What an archive says about its dump. A restore compares the database that it wrote with the figures. */
const manifestSchema = z.object({
  format: z.literal(formatVersion),
  /** The version of the checkout that wrote the archive. */
  product: z.string(),
  createdAt: z.iso.datetime(),
  /** Postgres's `server_version_num`. */
  postgres: z.int(),
  /** The versions of the product's migrations, oldest first. */
  migrations: z.array(z.string().regex(/^\d{14}$/)),
  tables: z.array(tableName),
  /** The relations that no migration creates. The dump has none of their rows. */
  excluded: z.array(z.string()),
  partitions: z.array(
    z.object({
      name: tableName,
      parent: tableName,
      bounds: z.string().regex(/^(DEFAULT|FOR VALUES FROM \('[^']*'\) TO \('[^']*'\))$/),
      options: z
        .string()
        .regex(/^[\w=, .]*$/)
        .nullable(),
    }),
  ),
  /** The rows of each table, and the audit of the books. */
  figures: z.record(z.string(), z.string()),
  /** What the doctor says about the database. */
  doctor: z.array(z.object({ level: z.enum(["ok", "warn", "fail", "unseen"]), about: z.string(), says: z.string() })),
});
export type Manifest = z.infer<typeof manifestSchema>;

/** @throws StackError if another version of this command wrote the text, or it is not a manifest */
export function parseManifest(file: string, text: string): Manifest {
  const parsed = manifestSchema.safeParse(JSON.parse(text));
  if (parsed.success) return parsed.data;
  throw new StackError(
    `${file} has another format than this release reads: ${z.prettifyError(parsed.error)}\n` +
      `${nothingChanged} Restore it with the release that wrote it, or a later one.`,
  );
}

/** @throws StackError if the server's major version is not the one that the product supports */
export function requireServerVersion(postgres: number): void {
  const major = Math.floor(postgres / 10_000);
  if (major === Number(majorVersion)) return;
  throw new StackError(
    `The database's server is Postgres ${major}, and this release supports ${majorVersion}. ${nothingChanged}`,
  );
}

/**
 * @param found the migrations of a database or of an archive, which `subject` names
 * @param known the migrations of this checkout
 * @throws StackError unless they are the same. Ignores a database's older migrations that are not ours
 */
export function requireSameRelease(
  subject: string,
  { found, known, release }: { found: readonly string[]; known: readonly string[]; release?: string },
): void {
  const newest = known.at(-1) ?? "";
  const newer = found.filter((version) => version > newest);
  const missing = known.filter((version) => !found.includes(version));
  const of = release ? ` (${release})` : "";
  if (newer.length > 0) {
    throw new StackError(
      `${subject} is of a later release${of} than this checkout (${product}), which does not have its migration ${newer[0]}. ${nothingChanged} Use the checkout of that release.`,
    );
  }
  if (missing.length > 0) {
    throw new StackError(
      `${subject} is of an earlier release${of} than this checkout (${product}): it lacks migration ${missing[0]}. ${nothingChanged} Use the checkout of that release, and upgrade afterwards.`,
    );
  }
}

export async function readServerVersion(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ version: number }>(
    "select current_setting('server_version_num')::int as version",
  );
  return rows[0]?.version ?? 0;
}
