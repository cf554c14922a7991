import { messageOf } from "@gatehousehq/local-stack/errors";
import { findProgram } from "@gatehousehq/local-stack/services/find-program";
import { findPatroniPrograms } from "@gatehousehq/local-stack/services/patroni/programs";
import { readSoakOptions, usage } from "./options.ts";
import { runSoak } from "./run.ts";
import { startSoakStack } from "./stack.ts";

/** `npm run soak`: runs traffic and faults on a separate stack, then the audit. Exits with 1 if the audit fails. */
const options = readOptions();
if (options.help) {
  console.log(usage);
  process.exit(0);
}
try {
  if (options.scale && !findProgram("pgbouncer")) {
    console.log("skipped: PgBouncer is not on the PATH. Install the package pgbouncer.");
    process.exit(0);
  }
  const found = options.switchPrimary ? findPatroniPrograms() : { programs: undefined };
  if ("missing" in found) {
    console.log(["skipped: --switch-primary needs more programs.", ...found.missing].join("\n"));
    process.exit(0);
  }
  console.log(
    `soak with seed ${options.seed}: ${Math.round(options.trafficMs / 1_000)} s of traffic. Ctrl-C ends it early.`,
  );
  const began = performance.now();
  const stack = await startSoakStack({ scale: options.scale, patroni: found.programs });
  console.log(`the stack is up after ${((performance.now() - began) / 1_000).toFixed(0)} s`);
  const stopping = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      // Ctrl-C may arrive twice, from the terminal and from npm. A second Ctrl-C stops the run immediately only if it
      // comes more than a second after the first.
      if (stopping.signal.aborted) return;
      console.log(`\n${signal}: the traffic ends; then the audit.`);
      stopping.abort();
      setTimeout(() => {
        process.once(signal, () => {
          stack.kill();
          process.exit(1);
        });
      }, 1_000);
    });
  }
  process.env.GATEHOUSE_STACK = stack.file;
  let ok = false;
  try {
    ok = await runSoak(stack, { options, stopping: stopping.signal });
  } finally {
    await stack.stop();
    if (ok && !options.keep) await stack.remove();
    else console.log(`Data and logs: ${[stack.dataDir, stack.cluster?.home ?? []].flat().join(", ")}`);
  }
  process.exit(ok ? 0 : 1);
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
  process.exit(1);
}

function readOptions() {
  try {
    return readSoakOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${messageOf(error)}\n\n${usage}`);
    process.exit(2);
  }
}
