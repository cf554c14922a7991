import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";

export const usage = `npm run soak -- [options]

  --minutes N       minutes of traffic (default 30)
  --quick           two minutes in all, as npm test has it
  --scale           two web servers and three of the functions behind PgBouncer, any of them killed at random
  --switch-primary  a primary with a standby; the primary is switched over, crashes, and is lost with its node
  --seed N          the same choices as the run that printed this seed
  --report DIR      where the report goes (default test-results/soak)
  --keep            keep the stack's data and logs even when all is well
  --help            this text`;

export type SoakOptions = {
  quick: boolean;
  scale: boolean;
  switchPrimary: boolean;
  trafficMs: number;
  seed: number;
  reportDir: string;
  keep: boolean;
  help: boolean;
};

const quickTrafficMs = 50_000;
const longestMinutes = 24 * 60;

/** Reads the command line. @throws Error with a one-sentence message for users */
export function readSoakOptions(args: string[]): SoakOptions {
  const { values } = parseArgs({
    args,
    options: {
      minutes: { type: "string" },
      quick: { type: "boolean", default: false },
      scale: { type: "boolean", default: false },
      "switch-primary": { type: "boolean", default: false },
      seed: { type: "string" },
      report: { type: "string", default: "test-results/soak" },
      keep: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.quick && values.minutes !== undefined) throw new Error("--quick has its own length: leave out --minutes.");
  if (values.quick && values.scale) throw new Error("--quick does not reach every process: leave it out with --scale.");
  if (values["switch-primary"] && (values.quick || values.scale)) {
    throw new Error("--switch-primary has its own faults: leave out --quick and --scale.");
  }
  const minutes = Number(values.minutes ?? 30);
  if (!(minutes >= 1 && minutes <= longestMinutes)) throw new Error(`--minutes takes 1 to ${longestMinutes}.`);
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  if (!Number.isInteger(seed) || seed < 0 || seed >= 2 ** 32) throw new Error("--seed takes a whole number.");
  return {
    quick: values.quick,
    scale: values.scale,
    switchPrimary: values["switch-primary"],
    trafficMs: values.quick ? quickTrafficMs : minutes * 60_000,
    seed,
    reportDir: values.report,
    keep: values.keep,
    help: values.help,
  };
}
