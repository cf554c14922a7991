import { cp, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readManifest } from "../database/contents/releases.ts";
import { findFaults, hashMigrations } from "./released-migrations.ts";

const migrations = path.resolve("supabase/migrations");
const manifest = await readManifest(process.cwd());
const costs = "20260906100000_external_provider_costs.sql";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "gatehouse-released-"));
  await cp(migrations, directory, { recursive: true });
});
afterEach(() => rm(directory, { recursive: true }));
const at = (file: string) => path.join(directory, file);
const faults = async () => findFaults(manifest, await hashMigrations(directory));

test("no released migration was changed, renamed or removed", async () => {
  expect(findFaults(manifest, await hashMigrations(migrations))).toEqual([]);
});

test("at least one release exists, and each release contains the migrations of the previous one", () => {
  expect(manifest.releases.length).toBeGreaterThan(0);
  manifest.releases.reduce((before, after) => {
    expect(after.migrations).toMatchObject(before.migrations);
    return after;
  });
});

test("names a released migration that was changed", async () => {
  await writeFile(at(costs), `${await readFile(at(costs), "utf8")}\n`);
  expect(await faults()).toEqual([`${costs} was changed after its release.`]);
});

test("reports a released migration that was renamed", async () => {
  await rename(at(costs), at("20260906100000_costs.sql"));
  expect(await faults()).toEqual([`${costs} was renamed to 20260906100000_costs.sql after its release.`]);
});

test("names a released migration that was removed", async () => {
  await rm(at(costs));
  expect(await faults()).toEqual([`${costs} was removed after its release.`]);
});

test("reports a new migration that is older than a released one, and accepts a newer one", async () => {
  await writeFile(at("20260906100001_late.sql"), "select 1;");
  await writeFile(at("20990101000000_new.sql"), "select 2;");
  const newest = Object.keys(manifest.releases.at(-1)?.migrations ?? {})
    .sort()
    .at(-1);
  expect(newest).toMatch(/^\d{14}_\w+\.sql$/);
  expect(await faults()).toEqual([
    `20260906100001_late.sql is older than ${newest}, which is released: give it a later date.`,
  ]);
});
