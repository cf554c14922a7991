import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { SatelliteApp } from "./apps.ts";

const root = path.resolve(import.meta.dirname, "../..");
const installTimeoutMs = 10 * 60_000;

/** Builds and packs a package after a rehearsal of its publication. @returns the tarball's path */
export function packPackage(name: "cli" | "satellite"): string {
  const destination = path.resolve(root, ".local/satellite-apps");
  mkdirSync(destination, { recursive: true });
  const cwd = path.join(root, "packages", name);
  run("npm", ["publish", "--dry-run"], { cwd });
  const packed = run("npm", ["pack", "--json", "--pack-destination", destination], { cwd });
  const filename = /"filename": "([^"]+)"/.exec(packed)?.[1] ?? "";
  return path.join(destination, filename);
}

/** Installs the packed command in a new folder, and runs it there. @throws Error if it does not show its usage */
export function checkCommand(tarball: string): void {
  const cwd = path.join(root, ".local/satellite-apps/command");
  rmSync(cwd, { recursive: true, force: true });
  mkdirSync(cwd, { recursive: true });
  run("npm", ["init", "-y"], { cwd });
  run("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", tarball], { cwd });
  const usage = run(path.join(cwd, "node_modules/.bin/gatehouse"), ["--help"], { cwd });
  if (!usage.includes("gatehouse login")) throw new Error(`The installed command shows no usage: ${usage}`);
}

/**
 * Installs an app below `.local/satellite-apps/` with the versions that its package.json pins. A satellite also gets the
 * package. @returns its folder
 */
export function installApp({ name, build, isOpenidClient }: SatelliteApp, { tarball }: { tarball: string }): string {
  const source = path.join(root, "packages/satellite/examples", name);
  const cwd = path.join(root, ".local/satellite-apps", name);
  const manifest = readFileSync(path.join(source, "package.json"), "utf8");
  const stamp = path.join(cwd, ".installed");
  const options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
  const isInstalled = existsSync(stamp) && readFileSync(stamp, "utf8") === manifest;
  if (!isInstalled) rmSync(cwd, { recursive: true, force: true });
  cpSync(source, cwd, { recursive: true });
  if (!isInstalled) {
    run("npm", ["install", ...options], { cwd });
    writeFileSync(stamp, manifest);
  }
  if (!isOpenidClient) run("npm", ["install", "--no-save", ...options, tarball], { cwd });
  if (build) run(process.execPath, [...build], { cwd, env: buildEnvironment });
  return cwd;
}

const buildEnvironment = { NODE_ENV: "production", NEXT_TELEMETRY_DISABLED: "1", CI: "1" };

function run(
  command: string,
  args: string[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> },
): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    timeout: installTimeoutMs,
    env: { ...process.env, ...env },
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ended with code ${status}:\n${(stdout + stderr).slice(-4_000)}`);
  return stdout;
}
