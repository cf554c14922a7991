import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Span } from "../faults/spans.ts";
import type { Journal } from "../journal.ts";
import type { Sampler } from "../samples.ts";
import type { SoakStack } from "../stack.ts";
import type { Traffic } from "../traffic/traffic.ts";
import type { TruthReader } from "../truth.ts";
import type { World } from "../world.ts";
import { judgeAccounts, judgeEnded } from "./accounts.ts";
import { judgeAnswers, judgeFaults, judgeFindings } from "./answers.ts";
import { judgeBooks, judgeCharges, judgeReports } from "./charges.ts";
import { readBooks, readImports, readReports, readRuns, waitUntilSettled } from "./collect.ts";
import { openAccounts, probeEnded } from "./collect-accounts.ts";
import { probeAll } from "./collect-probes.ts";
import { judgeImports } from "./imports.ts";
import { judgeLogs, logLines } from "./logs.ts";
import { judgeProbes } from "./probes.ts";
import { judgeConnections, judgeMemory } from "./resources.ts";
import { type Verdict, verdict } from "./verdict.ts";

export type Audited = {
  stack: SoakStack;
  world: World;
  traffic: Traffic;
  journal: Journal;
  spans: Span[];
  truth: TruthReader;
  sampler: Sampler;
};

/** 45 s without a sign of life, the sweeper's 15 s, and time to come. */
const settleLimitMs = 75_000;
const logged = ["functions", "web", "identity", "gateway", "notes", "postgres", "provider"];

/** Judges everything once the traffic has ended. A fact that cannot be had is a failure of its check. */
export async function audit({ stack, world, traffic, journal, spans, truth, sampler }: Audited): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  async function check(name: string, judge: () => Promise<Verdict | Verdict[]>): Promise<void> {
    try {
      verdicts.push(...[await judge()].flat());
    } catch (error) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      verdicts.push(verdict(name, { figures: "could not be judged", failures: [text] }));
    }
  }
  await check("runs settle", async () => {
    await waitUntilSettled(world, { limitMs: settleLimitMs });
    return judgeBooks(await readBooks(world));
  });
  await check("charges", async () =>
    judgeCharges({ runs: await readRuns(world), calls: await truth.finish(), asks: traffic.asks, spans }),
  );
  await check("reports", async () => judgeReports(await readReports(world)));
  await check("imports", async () => {
    const { costs, invoices } = traffic.importer;
    return judgeImports({ costs, invoices, ...(await readImports(world)) });
  });
  await check("accounts", async () => judgeAccounts(await openAccounts(world, traffic.households)));
  await check("ended sessions", async () => judgeEnded(await probeEnded(world, traffic)));
  await check("answers", async () => [
    judgeAnswers(journal.answers, spans),
    judgeFindings(journal.findings),
    judgeFaults(spans),
  ]);
  await check("memory", async () => judgeMemory(sampler.samples));
  await check("connections", async () => {
    const before = sampler.connections.length;
    await sampler.takeConnections();
    const { connections, samples } = sampler;
    return judgeConnections({ connections, samples, atRest: connections.slice(before) });
  });
  await check("logs", async () => judgeLogs(readLogs(path.join(stack.dataDir, "logs")), spans));
  await check("works after all of it", async () => judgeProbes(await probeAll(world)));
  return verdicts;
}

function readLogs(directory: string) {
  return readdirSync(directory)
    .filter((file) => logged.includes(path.basename(file, ".log")))
    .flatMap((file) => logLines(path.basename(file, ".log"), readFileSync(path.join(directory, file), "utf8")));
}
