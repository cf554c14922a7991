import { setTimeout as sleep } from "node:timers/promises";
import { injectFaults } from "./faults/inject.ts";
import { planFaults } from "./faults/plan.ts";
import type { Span } from "./faults/spans.ts";
import { createJournal } from "./journal.ts";
import type { SoakOptions } from "./options.ts";
import { createRandom } from "./random.ts";
import { progressLine, renderVerdicts, writeReport } from "./report.ts";
import { startSampler } from "./samples.ts";
import type { SoakStack } from "./stack.ts";
import { followTruth } from "./truth.ts";

const progressMs = 10_000;
/** How much longer traffic may last than planned, if a busy machine has delayed faults. */
const overrunMs = 20_000;
/** How long actors may take to finish: the longest time that an importer keeps retrying. */
const farewellLimitMs = 30_000;

/** Runs one soak on a running stack. @returns whether the audit passed */
export async function runSoak(
  stack: SoakStack,
  { options, stopping }: { options: SoakOptions; stopping: AbortSignal },
): Promise<boolean> {
  const begun = Date.now();
  // The modules below import others that read GATEHOUSE_STACK on load.
  const { createWorld, limitPayer } = await import("./world.ts");
  const { commuterCount, crowd, startTraffic } = await import("./traffic/traffic.ts");
  const { audit } = await import("./audit/audit.ts");
  const world = await createWorld({ ...crowd, commuters: options.scale ? commuterCount : 0 });
  await limitPayer(world);
  const random = createRandom(options.seed);
  const say = (line: string) => console.log(line);
  const journal = createJournal(({ actor, text }) => say(`found by ${actor}: ${text}`));
  const spans: Span[] = [];
  const sampler = startSampler(stack);
  const truth = followTruth(world.stack.provider);
  const enough = new AbortController();
  const over = AbortSignal.any([stopping, enough.signal]);
  const startedAt = Date.now();
  const traffic = startTraffic({ world, journal, random, ended: over });
  const progress = setInterval(
    () => say(progressLine(journal, { elapsedMs: Date.now() - startedAt, spans })),
    progressMs,
  );
  const planned = planFaults({ ...options, random: random.fork("faults") });
  const faults = injectFaults(planned, { stack, spans, ended: over, startedAt, say }).catch((error: unknown) => {
    journal.find("faults", error instanceof Error ? error.message : String(error));
  });
  sleep(options.trafficMs)
    .then(() => Promise.race([faults, sleep(overrunMs)]))
    .then(() => enough.abort());
  const ended = untilAborted(over).then(() => Date.now() - startedAt);
  await Promise.all([faults, traffic.done.then(() => undefined), untilAborted(over)].map((one) => orLate(one, over)));
  clearInterval(progress);
  const trafficMs = await ended;
  say(progressLine(journal, { elapsedMs: Date.now() - startedAt, spans }));

  const verdicts = await audit({
    ...{ stack, world, traffic, journal, spans, truth, sampler, trafficMs },
    // If the run is stopped early, not all planned faults happen.
    planned: stopping.aborted ? [] : planned,
  });
  sampler.stop();
  const seconds = Math.round((Date.now() - begun) / 1_000);
  const file = await writeReport(options.reportDir, { seed: options.seed, seconds, verdicts, spans, journal, sampler });
  say(`\n${renderVerdicts(verdicts)}\n`);
  const failed = verdicts.filter(({ ok }) => !ok).length;
  say(`${verdicts.length - failed} passed, ${failed} failed. Report: ${file}`);
  if (failed > 0)
    say(
      `Again with the same choices: npm run soak -- ${options.quick ? "--quick " : ""}${options.scale ? "--scale " : ""}${options.switchPrimary ? "--switch-primary " : ""}--seed ${options.seed}`,
    );
  return failed === 0;
}

function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

/** Waits for work to end, but only up to a limit after `over` has aborted. */
async function orLate(work: Promise<void>, over: AbortSignal): Promise<void> {
  await Promise.race([work, untilAborted(over).then(() => sleep(farewellLimitMs))]);
}
