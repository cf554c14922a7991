import { createInterface } from "node:readline";
import { endGroups, type OwnedProcess } from "./processes.ts";

// Runs in its own process and session. The runner reports the stack's process groups over a pipe. When the runner ends,
// even by kill -9, the pipe closes, and this process ends the groups that still run.

const graceMs = 5_000;
const owned = new Map<number, OwnedProcess>();

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line) as { add: OwnedProcess } | { remove: number };
  if ("add" in message) owned.set(message.add.pid, message.add);
  else owned.delete(message.remove);
}

await endGroups([...owned.values()].reverse(), graceMs);
