import { expect, test } from "vitest";
import { printReport, runCampaign } from "./campaign.ts";
import { everyTarget } from "./targets.ts";

/** The same for everyone; `npm run fuzz` takes another each time. */
const seed = Number(process.env.FUZZ_SEED ?? 20_260_801);
const seconds = Number(process.env.FUZZ_SECONDS ?? 40);
/** To make everyone who takes part, and for the last answers. */
const beyondSeconds = 60;

test(
  "made-up requests to every route: no failure of the server, no hanging, no leak, nothing changed by nobody",
  async () => {
    const report = await runCampaign({ seed, seconds });
    console.log(printReport(report));
    expect(report.changed).toEqual([]);
    expect(report.faults).toEqual([]);
    expect(report.counts.size).toBe(everyTarget().length);
  },
  (seconds + beyondSeconds) * 1_000,
);
