import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type { GrowthMeasurements } from "./growth.ts";

const dataDir = path.resolve(".local/bench-growth");
const file = path.join(dataDir, "growth.json");

/** The growth bench's database. It is kept when a run is stopped, together with the measurements so far. */
export type KeptGrowth = {
  dataDir: string;
  measured: GrowthMeasurements;
  save: (measured: GrowthMeasurements) => Promise<void>;
};

/** Opens the database of an unfinished run, or an empty one if the last run measured every size. */
export async function openGrowth(factors: readonly number[]): Promise<KeptGrowth> {
  const measured = await readMeasured();
  if (factors.some((factor) => !measured.factors.includes(factor))) return open(measured);
  await rm(dataDir, { recursive: true, force: true });
  return open(nothing);
}

/** Opens the existing database. Ignores its saved measurements, and saves no new ones. */
export async function reopenGrowth(): Promise<KeptGrowth> {
  return { ...(await open(nothing)), save: async () => undefined };
}

async function open(measured: GrowthMeasurements): Promise<KeptGrowth> {
  await mkdir(dataDir, { recursive: true });
  return { dataDir, measured, save: (all) => writeFile(file, JSON.stringify(all)) };
}

const nothing: GrowthMeasurements = { factors: [], rows: [] };

async function readMeasured(): Promise<GrowthMeasurements> {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch {
    return nothing;
  }
}
