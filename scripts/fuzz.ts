import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

/**
 * `npm run fuzz -- --minutes N --seed S`: made-up requests to every route for as long as is asked for, on a stack of its
 * own, or on the one that GATEHOUSE_STACK names. What each seed brings is the same again.
 */
const { values } = parseArgs({ options: { minutes: { type: "string", default: "1" }, seed: { type: "string" } } });
const settings = {
  FUZZ_SECONDS: String(Number(values.minutes) * 60),
  FUZZ_SEED: values.seed ?? String(Math.floor(Math.random() * 1_000_000_000)),
};
const child = spawn("vitest", ["run", "--project", "fuzz"], { stdio: "inherit", env: { ...process.env, ...settings } });
child.once("exit", (code) => {
  process.exitCode = code ?? 1;
});
