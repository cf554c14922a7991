import { chmod, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startScratchCluster } from "./scratch-cluster.ts";
import { prepareSnapshot } from "./snapshot.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), "gatehouse-snapshot-"));
  await chmod(root, 0o755);
  await mkdir(path.join(root, "supabase/migrations"), { recursive: true });
  await writeMigration("create table public.notes (note text);");
});
afterEach(() => rm(root, { recursive: true }));

const writeMigration = (sql: string) => writeFile(path.join(root, "supabase/migrations/20260101000000_notes.sql"), sql);
const prepare = () => prepareSnapshot(root, { folder: process.env.POSTGRES_BIN });

test("concurrent callers get one snapshot, and leave no draft behind", async () => {
  const [first, second] = await Promise.all([prepare(), prepare()]);
  expect(second).toBe(first);
  expect(await prepare()).toBe(first);
  expect(await readdir(path.dirname(first))).toEqual([path.basename(first)]);
});

test("a changed migration makes another snapshot, and unused snapshots and abandoned drafts are removed", async () => {
  const first = await prepare();
  const cache = path.dirname(first);
  const longAgo = new Date(Date.now() - 3_600_000);
  for (const name of ["unused", "another", "third"]) {
    await mkdir(path.join(cache, name));
    await utimes(path.join(cache, name), longAgo, longAgo);
  }
  await mkdir(path.join(cache, "interrupted.draft.new"));
  await writeMigration("create table public.notes (note text, title text);");
  const second = await prepare();
  const left = await readdir(cache);
  expect(left).toEqual(expect.arrayContaining([first, second].map((one) => path.basename(one))));
  expect(left).toHaveLength(3);
  expect(left).not.toContain("interrupted.draft.new");
});

test("a migration that fails leaves no snapshot behind", async () => {
  await writeMigration("create table public.notes (note nonsense);");
  await expect(prepare()).rejects.toThrow(/20260101000000_notes\.sql, line 1: type "nonsense" does not exist/);
  expect(await readdir(path.join(root, ".local/snapshots"))).toEqual([]);
});

test("copies of a snapshot have separate passwords and databases with and without the migrations", async () => {
  const [first, second] = [await startScratchCluster(), await startScratchCluster()];
  try {
    const [one, other] = [await first.createDatabase({ migrated: true }), await second.createDatabase()];
    const isMigrated = (url: string) =>
      withDatabase(url, async (client) => {
        const { rows } = await client.query("select to_regclass('public.workspaces') is not null as found");
        return rows[0]?.found;
      });
    expect([await isMigrated(one), await isMigrated(other)]).toEqual([true, false]);
    for (const username of ["supabase_admin", "postgres", "supabase_auth_admin"]) {
      const as = { username, pathname: "/postgres" };
      expect(await isMigrated(Object.assign(new URL(one), as).href)).toBe(true);
      const { port } = new URL(other);
      await expect(isMigrated(Object.assign(new URL(one), { ...as, port }).href)).rejects.toThrow(/password/);
    }
  } finally {
    await Promise.all([first.stop(), second.stop()]);
  }
});
