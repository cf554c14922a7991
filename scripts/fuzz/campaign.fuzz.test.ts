import { expect, test } from "vitest";
import { createPerson, deletePerson, query } from "../test/people.ts";
import { longerSeconds, printReport, runCampaign } from "./campaign.ts";
import { changesOf, digestTables, readMoment } from "./guarded.ts";
import { everyTarget } from "./targets.ts";

/** Fixed, so that every run is the same; `npm test -- fuzz` uses a new seed each time. */
const seed = Number(process.env.FUZZ_SEED ?? 20_260_801);
const seconds = Number(process.env.FUZZ_SECONDS ?? 25);
/** Additional time to create the participants, for the first round on a busy machine, and for the last responses. */
const beyondSeconds = longerSeconds + 60;

test(
  "generated requests to every route with every credential cause no server error, hang, leak or unauthorized change",
  async () => {
    const report = await runCampaign({ seed, seconds });
    console.log(printReport(report));
    expect(report.changed).toEqual([]);
    expect(report.faults).toEqual([]);
    expect(report.ended).toEqual([]);
    expect(report.gaps).toEqual([]);
    expect(report.counts.size).toBe(everyTarget().length);
    expect(report.pairs.asked).toBe(report.pairs.all);
  },
  (seconds + beyondSeconds) * 1_000,
);

test("the fuzzer detects a changed column of one row, but ignores columns that change by themselves", async () => {
  const person = await createPerson();
  try {
    const since = await readMoment();
    const before = await digestTables(since);
    await query("update auth.users set last_sign_in_at = now() where id = $1", [person.id]);
    expect(changesOf(before, await digestTables(since))).toEqual([]);
    await query('update auth.users set raw_user_meta_data = \'{"name":"Eve"}\' where id = $1', [person.id]);
    expect(changesOf(before, await digestTables(since))).toEqual([expect.stringContaining("auth.users")]);
  } finally {
    await deletePerson(person);
  }
});
