import path from "node:path";
import { denoCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import type pg from "pg";
import { type ServiceProcess, startServer } from "../gateway/service-process.ts";

const program = path.resolve(import.meta.dirname, "../processes/floor.ts");

/** Starts the floor: a forwarder in the functions' Deno runtime that commits one row before it calls the upstream. */
export async function startFloor(
  client: pg.Client,
  { upstream, databaseUrl }: { upstream: string; databaseUrl: string },
): Promise<ServiceProcess> {
  await client.query("create schema bench; create table bench.calls (id uuid primary key, at timestamptz not null)");
  const { command, args } = denoCommand(path.resolve("."));
  return startServer({
    command,
    args: () => [...args, "run", "--quiet", "--no-remote", "--allow-net", "--allow-env", "--allow-sys", program],
    env: () => ({ UPSTREAM: upstream, DATABASE_URL: databaseUrl }),
  });
}
