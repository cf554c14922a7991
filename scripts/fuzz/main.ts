import { spawn } from "node:child_process";
import { readArguments } from "../help.ts";

const usage = `npm test -- fuzz [--minutes N] [--seed S]

Sends generated requests to every route for the given time (one minute by default), on the stack that GATEHOUSE_STACK
names or one of its own. The same seed generates the same requests.`;
const { values } = readArguments(usage, {
  options: { minutes: { type: "string", default: "1" }, seed: { type: "string" } },
});
const settings = {
  FUZZ_SECONDS: String(Number(values.minutes) * 60),
  FUZZ_SEED: values.seed ?? String(Math.floor(Math.random() * 1_000_000_000)),
};
const child = spawn("vitest", ["run", "--project", "fuzz"], { stdio: "inherit", env: { ...process.env, ...settings } });
child.once("exit", (code) => {
  process.exitCode = code ?? 1;
});
