import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { applyMigrations } from "../database/migrations.ts";
import { verdict } from "../soak/audit/verdict.ts";
import { createJournal } from "../soak/journal.ts";
import { createRandom } from "../soak/random.ts";
import { renderVerdicts } from "../soak/report.ts";
import { type SoakStack, startSoakStack } from "../soak/stack.ts";
import type { ReportedInvoice } from "../soak/traffic/importer.ts";
import { followTruth } from "../soak/truth.ts";
import { checkOutPrevious, hasNewMigrations, type PreviousRelease, takeThisCheckout } from "./previous-release.ts";

const trafficBeforeMs = 4_000;
const trafficAfterMs = 3_000;
const heldStreams = 6;

let previous: PreviousRelease;
let stack: SoakStack;

beforeAll(async () => {
  const found = (await hasNewMigrations()) ? await checkOutPrevious() : await takeThisCheckout();
  if ("unavailable" in found) {
    console.log(`The upgrade starts from this checkout: ${found.unavailable}.`);
    previous = await takeThisCheckout();
  } else previous = found;
  stack = await startSoakStack({ root: previous.root });
  process.env.GATEHOUSE_STACK = stack.file;
});
afterAll(async () => {
  await stack.stop();
  await stack.remove();
  await previous.remove();
});

test("upgrades a database in use without failed calls or unbalanced books", async () => {
  // Imported late, since these modules read GATEHOUSE_STACK when they are loaded.
  const { createWorld } = await import("../soak/world.ts");
  const { crowd, startTraffic } = await import("../soak/traffic/traffic.ts");
  const { readBooks, readImports, readReports, readRuns, waitUntilSettled, query } = await import(
    "../soak/audit/collect.ts"
  );
  const { openAccounts, probeEnded } = await import("../soak/audit/collect-accounts.ts");
  const { judgeBooks, judgeCharges, judgeReports } = await import("../soak/audit/charges.ts");
  const { judgeAccounts, judgeEnded } = await import("../soak/audit/accounts.ts");
  const { judgeFindings } = await import("../soak/audit/answers.ts");
  const { judgeImports } = await import("../soak/audit/imports.ts");
  const { signIn } = await import("../test/people.ts");

  const world = await createWorld(crowd);
  await query(world, {
    sql: `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('workspace', $1, $1, 1000)`,
    values: [world.payer.workspaceId],
  });
  const invoice: ReportedInvoice = { reference: "UPGRADE-1", amountUsd: "12.5", accepted: true };
  const reported = await fetch(`${world.stack.ai}/v1/provider-invoices`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${world.partner.key}`,
      "content-type": "application/json",
      "x-platform-workspace-id": world.partner.workspaceId,
    },
    body: `{"provider":"openai","reference":"${invoice.reference}","issuedOn":"2026-01-31","reviewedAt":"2026-02-01T09:00:00Z","amountUsd":${invoice.amountUsd}}`,
  });
  expect(reported.status).toBe(200);
  const truth = followTruth(world.stack.provider);
  const journal = createJournal();
  const enough = new AbortController();
  const traffic = startTraffic({ world, journal, random: createRandom(1), ended: enough.signal });
  await sleep(trafficBeforeMs);

  const held = Array.from({ length: heldStreams }, () =>
    fetch(`${world.stack.ai}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${world.payer.key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "demo-chat",
        stream: true,
        max_completion_tokens: 400,
        messages: [{ role: "user", content: "[[words=240 pace=150]]" }],
      }),
    }),
  );
  const streams = await Promise.all(held);
  expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200));
  const countOpen = async () => {
    const [row] = await query<{ open: number; reserved: string }>(world, {
      sql: "select count(*)::int as open, coalesce(sum(reserved_usd), 0)::text as reserved from ai.runs where status = 'running'",
      values: [],
    });
    return row ?? { open: 0, reserved: "0" };
  };
  const before = await countOpen();
  expect(before.open).toBeGreaterThanOrEqual(heldStreams);

  const from = Date.now();
  const applied = await applyMigrations({ dbUrl: world.stack.supabase.dbUrl, directory: previous.upgraded });
  const until = Date.now();
  expect(applied).toEqual(previous.added);
  const after = await countOpen();
  expect(after.open).toBeGreaterThanOrEqual(heldStreams);

  const bodies = await Promise.all(streams.map((stream) => stream.text()));
  expect(bodies.filter((body) => body.trimEnd().endsWith("data: [DONE]"))).toHaveLength(heldStreams);
  await sleep(trafficAfterMs);
  enough.abort();
  await traffic.done;

  expect(await waitUntilSettled(world, { limitMs: 60_000 })).toBe(0);
  const runs = await readRuns(world);
  const { costs, invoices } = traffic.importer;
  const ended = await probeEnded(world, traffic);
  const failed = journal.answers.filter(
    ({ status, left, asked }) => !asked && (status === null ? !left : status >= 500),
  );
  const during = journal.answers.filter(({ startedAt, endedAt }) => startedAt <= until && endedAt >= from);
  // While the upgrade holds a lock, pages may return 503 "Try again" without a code.
  const refused = failed.filter((one) => one.status === 503 && (one.code !== null || during.includes(one)));
  const people = [
    ...world.households.flat(),
    ...world.visitors,
    ...world.phoneOwners,
    world.payer.owner,
    world.partner.owner,
  ];
  const locations: (string | null)[] = [];
  for (let at = 0; at < people.length; at += 6) {
    locations.push(...(await Promise.all(people.slice(at, at + 6).map(async (one) => (await signIn(one)).location))));
  }
  const [budget] = await query<{ spent: string; cost: string; reserved: string }>(world, {
    sql: `select trim_scale(b.spent_usd)::text as spent, trim_scale(b.reserved_usd)::text as reserved,
        (select trim_scale(sum(r.cost_usd))::text from ai.runs r where r.workspace_id = b.workspace_id) as cost
      from ai.budgets b where b.scope = 'workspace' and b.subject_id = $1`,
    values: [world.payer.workspaceId],
  });
  const unable = people.filter((_, at) => locations[at] === null || locations[at]?.startsWith("/login"));
  const verdicts = [
    ...judgeBooks(await readBooks(world)),
    ...judgeCharges({ runs, calls: await truth.finish(), asks: traffic.asks, spans: [] }),
    judgeReports(await readReports(world)),
    judgeImports({ costs, invoices: [...invoices, invoice], ...(await readImports(world)) }),
    judgeAccounts(await openAccounts(world, traffic.households)),
    judgeEnded(ended),
    verdict("the budget is what runs cost", {
      figures: `USD ${budget?.spent}`,
      failures: budget?.spent === budget?.cost && budget?.reserved === "0" ? [] : [JSON.stringify(budget)],
    }),
    judgeFindings(journal.findings),
    verdict("every account signs in", {
      figures: `${people.length} accounts`,
      failures: unable.map(({ email }) => email),
    }),
    verdict("no call failed", {
      figures: `${journal.answers.length} calls, ${during.length} during the upgrade of ${until - from} ms; ${refused.length} answered a retryable 503`,
      failures: failed
        .filter((one) => !refused.includes(one))
        .map(({ actor, what, status, code }) => `${actor}: ${what} was answered ${status} ${code}`),
    }),
  ];
  console.log(
    `Upgraded ${previous.version} by ${applied.join(", ")}: ${runs.length} runs, ${before.open} open with USD ${before.reserved} reserved, then ${after.open}.\n${renderVerdicts(verdicts)}`,
  );
  expect(verdicts.flatMap(({ failures }) => failures)).toEqual([]);
  expect(during.length).toBeGreaterThan(0);
  if (applied.some((file) => file.endsWith("_run_region.sql"))) {
    const unfilled = await query(world, {
      sql: "select id, status from ai.runs where region is distinct from 'eu'",
      values: [],
    });
    expect(unfilled).toEqual([]);
  }
});
