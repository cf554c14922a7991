import { readFile } from "node:fs/promises";
import type { Database } from "./db.ts";
import { transaction } from "./db.ts";

const parts = ["01-accounts.sql", "02-sessions.sql", "03-access.sql"];
const version = "gatehouse-1";
/** The key of the advisory lock that serializes servers at their start. The number is arbitrary. */
const startLock = 4_720_118;

/**
 * Creates schema auth's tables if they are missing. Several servers may start concurrently.
 * @throws Error if the tables belong to another implementation or version
 */
export async function applySchema(db: Database): Promise<void> {
  await transaction(db, async (tx) => {
    await tx.query("select pg_advisory_xact_lock($1)", [startLock]);
    await tx.query("create schema if not exists auth");
    const { rows } = await tx.query<{ present: string | null }>(
      "select to_regclass('auth.schema_migrations')::text as present",
    );
    if (rows[0]?.present) {
      const applied = await tx.query<{ version: string }>("select version from auth.schema_migrations");
      if (applied.rows.some((row) => row.version === version)) return;
      throw new Error(
        `Schema auth in this database was made by another identity server, not by this one (${version}). Use another data directory, or run "npm run reset".`,
      );
    }
    await tx.query("create table auth.schema_migrations (version varchar(14) primary key)");
    for (const part of parts) {
      await tx.query(await readFile(new URL(`./schema/${part}`, import.meta.url), "utf8"));
    }
    await tx.query("insert into auth.schema_migrations (version) values ($1)", [version]);
  });
}
