import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findDifferences } from "./generate.ts";
import { type ScratchCluster, startScratchCluster } from "./scratch-cluster.ts";

let cluster: ScratchCluster;
beforeAll(async () => {
  cluster = await startScratchCluster();
});
afterAll(() => cluster.stop());

test("the migrations alone define what their tables and the schema files define", async () => {
  const layout = {
    dbUrl: await cluster.createDatabase(),
    migrations: path.resolve("supabase/migrations"),
    schemas: path.resolve("supabase/schemas"),
  };
  expect(await findDifferences(layout)).toEqual([]);
}, 60_000);
