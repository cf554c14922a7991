import { spawnSync } from "node:child_process";

type Command = { command: string; args: string[] };

/**
 * The same command, as a process that takes no processor from another one the moment it has something to do: it waits
 * until one is free, or its turn comes (Linux' batch scheduling, sched(7)). What it starts is so, too. Unchanged where
 * the system has no such thing, or not the program that asks for it.
 * @param chrt of util-linux or BusyBox; it becomes the command, and does not stay beside it
 */
export function yieldingCommand({ command, args }: Command, chrt = "chrt"): Command {
  const asBatch = ["-b", "0"];
  const isPossible = spawnSync(chrt, [...asBatch, "true"], { stdio: "ignore" }).status === 0;
  return isPossible ? { command: chrt, args: [...asBatch, command, ...args] } : { command, args };
}
