import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

/**
 * `npm test -- fuzz --minutes N --seed S`: sends generated requests to every route for the given time, on its own stack
 * or on the one that GATEHOUSE_STACK names. The same seed generates the same requests.
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
