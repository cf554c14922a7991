#!/usr/bin/env node
// Runs the command with this Node if it reads TypeScript, otherwise with the Node that `npm ci` installs here.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const command = new URL("../gatehouse.ts", import.meta.url);
if (process.features.typescript) {
  await import(command.href);
} else {
  const node = fileURLToPath(new URL("../../node_modules/node/bin/node", import.meta.url));
  const { status, error } = spawnSync(node, [fileURLToPath(command), ...process.argv.slice(2)], { stdio: "inherit" });
  if (error) {
    console.error("gatehouse: run npm ci in its checkout first, or use Node 22.18 or newer.");
  }
  process.exitCode = status ?? 1;
}
