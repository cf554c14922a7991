import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findUnknownNames } from "./body-names.ts";
import { findDifferences } from "./generate.ts";
import { applyMigrations } from "./migrations.ts";
import { type ScratchCluster, startScratchCluster } from "./scratch-cluster.ts";

const migrations = path.resolve("supabase/migrations");
const schemas = path.resolve("supabase/schemas");

let cluster: ScratchCluster;
beforeAll(async () => {
  cluster = await startScratchCluster();
});
afterAll(() => cluster.stop());

test("the migrations build exactly what the schema files define", async () => {
  const layout = { dbUrl: await cluster.createDatabase({ migrated: true }), migrations, schemas };
  expect(await findDifferences(layout)).toEqual([]);
});

// An operator must apply each of these migrations before enabling its feature. Everything else works without them.
test.for([
  "20260906100000_external_provider_costs.sql",
  "20260907110000_external_provider_invoices.sql",
  "20260923130000_required_account_mfa.sql",
])("functions from earlier migrations do not depend on the migration %s", { timeout: 60_000 }, async (next) => {
  const directory = await mkdtemp(path.join(tmpdir(), "gatehouse-before-"));
  try {
    await cp(migrations, directory, {
      recursive: true,
      filter: (source) => source === migrations || path.basename(source) < next,
    });
    const dbUrl = await cluster.createDatabase();
    await applyMigrations({ dbUrl, directory });
    await withDatabase(dbUrl, async (client) => {
      // Reads the functions before this migration is applied, since later migrations may replace them.
      const { rows } = await client.query<{ name: string; body: string }>(
        `select p.oid::regprocedure::text as name, p.prosrc as body
         from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where n.nspname in ('public', 'private', 'ai')`,
      );
      const definitions = rows.map(({ name, body }) => ({ file: name, line: 1, text: body, body }));
      expect(definitions.length).toBeGreaterThan(300);
      expect(await findUnknownNames(client, definitions)).toEqual([]);
    });
  } finally {
    await rm(directory, { recursive: true });
  }
});
