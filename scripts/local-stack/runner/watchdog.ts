import { createInterface } from "node:readline";
import { endGroups, type OwnedProcess } from "./processes.ts";

// Its own process, in its own session. The runner tells it over a pipe which process groups are the stack's.
// However the runner ends, kill -9 included, the pipe closes, and whatever is left then is ended here.

const graceMs = 5_000;
const owned = new Map<number, OwnedProcess>();

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line) as { add: OwnedProcess } | { remove: number };
  if ("add" in message) owned.set(message.add.pid, message.add);
  else owned.delete(message.remove);
}

await endGroups([...owned.values()].reverse(), graceMs);
