import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { yieldingCommand } from "./scheduling.ts";

const fieldsBeforePolicy = 38;
const batch = "3";
/** Says its pid and how it is scheduled: `policy` of /proc/[pid]/stat, of which the name and the state come first. */
const tellScheduling = {
  command: process.execPath,
  args: [
    "--print",
    `[process.pid, require("fs").readFileSync("/proc/self/stat", "utf8").split(") ")[1].split(" ")[${fieldsBeforePolicy}]].join()`,
  ],
};

test("a command is as given where there is nothing to ask with", () => {
  expect(yieldingCommand({ command: "/bin/echo", args: ["a", "b"] }, "/no/such/chrt")).toEqual({
    command: "/bin/echo",
    args: ["a", "b"],
  });
});

describe.skipIf(process.platform !== "linux")("where Linux is asked", () => {
  test("the command itself waits for its turn", () => {
    const hasChrt = spawnSync("chrt", ["--help"]).status === 0;
    const { command, args } = yieldingCommand(tellScheduling);
    const { pid, stdout } = spawnSync(command, args, { encoding: "utf8" });
    expect(stdout.trim()).toBe(`${pid},${hasChrt ? batch : "0"}`);
  });
});
