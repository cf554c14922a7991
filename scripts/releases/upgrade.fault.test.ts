import { setTimeout as sleep } from "node:timers/promises";
import { withDatabase } from "@gatehousehq/local-stack/database";
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { applyMigrations } from "../database/migrations.ts";
import { judgeProbes, type Verdict, verdict } from "../soak/audit/verdict.ts";
import { type Answered, createJournal } from "../soak/journal.ts";
import { createRandom } from "../soak/random.ts";
import { renderVerdicts } from "../soak/report.ts";
import type { ReportedInvoice } from "../soak/traffic/importer.ts";
import { followTruth } from "../soak/truth.ts";
import type { Held } from "./continuity.ts";
import { buildIndexes, compareBooks, fillDatabase, readIndexStatements, readLoadBooks } from "./filled-database.ts";
import type { Pending } from "./pending-flows.ts";
import { type PreviousRelease, preparePrevious } from "./previous-release.ts";
import { type RollingStack, startRollingStack } from "./rolling-servers.ts";

/** `npm run release -- --rehearse` sets this to `small` or `large`. */
const rehearsal = process.env.GATEHOUSE_REHEARSAL;
const isRehearsal = rehearsal !== undefined;
const isLarge = rehearsal === "large";
/** What the previous release's own `npm run seed:load` and one statement fill the database with. */
const size = isLarge
  ? { runs: 200_000, days: 365, accounts: 5_000, webSessions: 200 }
  : { runs: 20_000, days: 60, accounts: 100, webSessions: 8 };
const migrations = "supabase/migrations";
const prepareLimitMs = 300_000;
const timeoutMs = isLarge ? 20 * 60_000 : 400_000;
const trafficMs = 3_000;
const settleLimitMs = 60_000;
const heldStreams = 6;
const checksAtOnce = 6;
const settings = { BREACHED_PASSWORDS_URL: "off", OAUTH_CLIENT_REGISTRATION: "on" };

let previous: PreviousRelease | undefined;
let stack: RollingStack | undefined;

beforeAll(async () => {
  previous = await preparePrevious(AbortSignal.timeout(prepareLimitMs));
  stack = await startRollingStack({ root: previous.root, settings });
  process.env.GATEHOUSE_STACK = stack.file;
}, prepareLimitMs);
afterAll(async () => {
  await stack?.stop();
});

test(
  "an upgrade, a rollback and a second upgrade fail no call, lose no session and change no book",
  async () => {
    if (!previous || !stack) throw new Error("no stack");
    // Imported late, since these modules read GATEHOUSE_STACK when they are loaded.
    const { createWorld } = await import("../soak/world.ts");
    const { crowd, startTraffic } = await import("../soak/traffic/traffic.ts");
    const collect = await import("../soak/audit/collect.ts");
    const { openAccounts, probeEnded } = await import("../soak/audit/collect-accounts.ts");
    const { probeAll } = await import("../soak/audit/collect-probes.ts");
    const { judgeBooks, judgeCharges, judgeReports } = await import("../soak/audit/charges.ts");
    const { judgeAccounts, judgeEnded } = await import("../soak/audit/accounts.ts");
    const { judgeFindings } = await import("../soak/audit/answers.ts");
    const { judgeImports } = await import("../soak/audit/imports.ts");
    const { signIn } = await import("../test/people.ts");
    const { createHeld } = await import("./continuity.ts");
    const { beginPending } = await import("./pending-flows.ts");

    const { dbUrl } = stack.description.supabase;
    const load = await fillDatabase(previous, { dbUrl, file: stack.file, size });
    const world = await createWorld(crowd);
    const query = <Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []) =>
      collect.query<Row>(world, { sql, values });
    await query(
      "insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('workspace', $1, $1, 1000)",
      [world.payer.workspaceId],
    );
    const invoice = await reportInvoice(world.stack.ai, world.partner);
    const held = await createHeld(size.webSessions);
    const loadBooks = () => readLoadBooks(world.stack.ai, { dbUrl, load });
    const booksBefore = await loadBooks();
    // Of earlier months, this month and the next one.
    expect(booksBefore.partitions).toMatch(/^ai\.runs_\d{4}_\d{2}, ai\.runs_\d{4}_\d{2}, ai\.runs_default$/);

    const truth = followTruth(world.stack.provider);
    const journal = createJournal();
    const enough = new AbortController();
    const traffic = startTraffic({ world, journal, random: createRandom(1), ended: enough.signal });
    await sleep(trafficMs);

    const verdicts: Verdict[] = [await judgeEach("before: sessions, keys and tokens work", held)];
    const changes: Change[] = [];
    const begin = async (what: string, root: string) => {
      const pending = await beginPending({ root });
      return { what, pending, streams: await openStreams(world.stack.ai, world.payer.key) };
    };
    /** Notes the time of a change of the database or of servers. */
    const timed = async (what: string, change: () => Promise<unknown>) => {
      const from = Date.now();
      await change();
      changes.push({ what, from, until: Date.now() });
    };
    /** Finishes what began before a change of servers, and checks what accounts hold. */
    const finish = async ({ what, pending, streams }: Awaited<ReturnType<typeof begin>>) => {
      const bodies = await Promise.all(streams.map((stream) => stream.text()));
      verdicts.push(
        verdict(`${what}: open streams end complete`, {
          figures: `${streams.length} streams`,
          failures: bodies.filter((body) => !body.trimEnd().endsWith("data: [DONE]")).map((body) => body.slice(-200)),
        }),
        await judgeEach(`${what}: flows in progress finish`, pending.map(toChecked)),
        await judgeEach(`${what}: sessions, keys and tokens work`, held),
        judgeProbes(await probeAll(world)),
        verdict(`${what}: the books of settled runs are unchanged`, {
          figures: `${booksBefore.runs} runs in ${booksBefore.partitions}, USD ${booksBefore.cost_usd}`,
          failures: compareBooks(booksBefore, await loadBooks()),
        }),
      );
      await sleep(trafficMs);
    };

    const first = await begin("upgrade", previous.root);
    await checkRefusal(dbUrl, previous);
    await buildIndexes(dbUrl, previous);
    let applied: string[] = [];
    await timed("migrations", async () => {
      applied = await applyMigrations({ dbUrl, directory: migrations });
    });
    expect(applied).toEqual(previous.added);
    await timed("upgrade", stack.upgrade);
    await finish(first);

    const second = await begin("rollback", process.cwd());
    await timed("rollback", stack.rollBack);
    await finish(second);

    const third = await begin("second upgrade", previous.root);
    await timed("second upgrade", stack.upgrade);
    await finish(third);
    enough.abort();
    await traffic.done;

    expect(await collect.waitUntilSettled(world, { limitMs: settleLimitMs })).toBe(0);
    const runs = await collect.readRuns(world);
    // The provider also saw the calls of what accounts hold.
    const others = await query<{ id: string; requestId: string }>(
      `select id, request_id as "requestId" from ai.runs where request_id <> 'load' and workspace_id <> all ($1)`,
      [[world.payer.workspaceId, world.partner.workspaceId]],
    );
    const foreign = new Set(others.flatMap(({ id, requestId }) => [id, requestId]));
    const calls = (await truth.finish()).filter(({ requestId }) => !foreign.has(requestId ?? ""));
    const { costs, invoices } = traffic.importer;
    const failed = journal.answers.filter(
      ({ status, left, asked }) => !asked && (status === null ? !left : status >= 500),
    );
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
    const unable = people.filter((_, at) => locations[at] === null || locations[at]?.startsWith("/login"));
    const [budget] = await query<{ spent: string; cost: string; reserved: string }>(
      `select trim_scale(b.spent_usd)::text as spent, trim_scale(b.reserved_usd)::text as reserved,
        (select trim_scale(sum(r.cost_usd))::text from ai.runs r where r.workspace_id = b.workspace_id) as cost
      from ai.budgets b where b.scope = 'workspace' and b.subject_id = $1`,
      [world.payer.workspaceId],
    );
    const unbalanced = await query<{ account: string }>(
      `select a.id as account from ai.credit_accounts a
      where a.balance <> (select coalesce(sum(l.amount), 0) from ai.credit_ledger l where l.account_id = a.id)`,
    );
    const unsent = await waitForMails(() =>
      query<{ subject: string }>("select coalesce(subject, 'a notice') as subject from private.outgoing_mails"),
    );
    const isRefusal = (one: Answered) => isTolerated(one, changes);
    verdicts.push(
      ...judgeBooks(await collect.readBooks(world)),
      ...judgeCharges({ runs, calls, asks: traffic.asks, spans: [] }),
      judgeReports(await collect.readReports(world)),
      judgeImports({ costs, invoices: [...invoices, invoice], ...(await collect.readImports(world)) }),
      judgeAccounts(await openAccounts(world, traffic.households)),
      judgeEnded(await probeEnded(world, traffic)),
      verdict("the budget is what runs cost", {
        figures: `USD ${budget?.spent}`,
        failures: budget?.spent === budget?.cost && budget?.reserved === "0" ? [] : [JSON.stringify(budget)],
      }),
      verdict("every balance is its ledger", {
        figures: "all accounts",
        failures: unbalanced.map(({ account }) => account),
      }),
      verdict("every pending mail is sent", { figures: "0 left", failures: unsent.map(({ subject }) => subject) }),
      judgeFindings(journal.findings),
      verdict("every account signs in", {
        figures: `${people.length} accounts`,
        failures: unable.map(({ email }) => email),
      }),
      verdict("no call failed", {
        figures: `${journal.answers.length} calls, ${failed.filter(isRefusal).length} answered 503 outside of a change or on a busy machine`,
        failures: failed
          .filter((one) => !isRefusal(one))
          .map(
            ({ actor, what, status, code, startedAt }) =>
              `${new Date(startedAt).toISOString()} ${actor}: ${what} was answered ${status} ${code}`,
          ),
      }),
    );
    console.log(
      `${previous.version} to this checkout, back and forward, by ${applied.join(", ")}: ${runs.length} runs of traffic.\n${renderVerdicts(verdicts)}\n${renderChanges(changes, journal.answers)}`,
    );
    expect(verdicts.flatMap(({ failures }) => failures)).toEqual([]);
    expect(changes.filter((change) => answersDuring(change, journal.answers).length === 0)).toEqual([]);
  },
  timeoutMs,
);

/** Reports an invoice as an app's server does. */
async function reportInvoice(ai: string, tenant: { key: string; workspaceId: string }): Promise<ReportedInvoice> {
  const invoice: ReportedInvoice = { reference: "UPGRADE-1", amountUsd: "12.5", accepted: true };
  const reported = await fetch(`${ai}/v1/provider-invoices`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${tenant.key}`,
      "content-type": "application/json",
      "x-platform-workspace-id": tenant.workspaceId,
    },
    body: `{"provider":"openai","reference":"${invoice.reference}","issuedOn":"2026-01-31","reviewedAt":"2026-02-01T09:00:00Z","amountUsd":${invoice.amountUsd}}`,
  });
  expect(reported.status).toBe(200);
  return invoice;
}

/** Opens streams that outlast the change of servers. */
async function openStreams(ai: string, key: string): Promise<Response[]> {
  const streams = await Promise.all(
    Array.from({ length: heldStreams }, () =>
      fetch(`${ai}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({
          model: "demo-chat",
          stream: true,
          max_completion_tokens: 400,
          messages: [{ role: "user", content: "[[words=60 pace=150]]" }],
        }),
      }),
    ),
  );
  expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200));
  return streams;
}

/** Checks that an upgrade without the indexes that the changelog asks for changes nothing, and names them. */
async function checkRefusal(dbUrl: string, previous: PreviousRelease): Promise<void> {
  if ((await readIndexStatements(previous)).length === 0) return;
  const versions = "select count(*)::int as count from supabase_migrations.schema_migrations";
  await withDatabase(dbUrl, async (client) => {
    const before = await client.query(versions);
    await expect(applyMigrations({ dbUrl, directory: migrations })).rejects.toThrow(
      /Nothing was changed\. First build the indexes that are missing or invalid: \S/,
    );
    expect((await client.query(versions)).rows).toEqual(before.rows);
  });
}

const toChecked = ({ what, finish }: Pending): Held => ({ what, check: finish });

async function judgeEach(name: string, all: readonly Held[]): Promise<Verdict> {
  const failures: string[] = [];
  for (let at = 0; at < all.length; at += checksAtOnce) {
    const part = all.slice(at, at + checksAtOnce);
    const answers = await Promise.all(part.map(async ({ what, check }) => ({ what, failure: await check() })));
    failures.push(...answers.flatMap(({ what, failure }) => (failure === undefined ? [] : [`${what}: ${failure}`])));
  }
  return verdict(name, { figures: `${all.length}`, failures });
}

/**
 * Returns whether an answer says to try again for a reason that a busy machine alone can cause. A rehearsal on a quiet machine tolerates none during a change.
 */
function isTolerated(answer: Answered, changes: readonly Change[]): boolean {
  const isDuringChange = changes.some((change) => answersDuring(change, [answer]).length > 0);
  return answer.status === 503 && (isDuringChange ? !isRehearsal : answer.code !== null);
}

type Change = { what: string; from: number; until: number };

function answersDuring({ from, until }: Change, answers: readonly Answered[]): Answered[] {
  return answers.filter(({ startedAt, endedAt }) => startedAt <= until && endedAt >= from);
}

/** Renders how long each change took, how many calls it met, and the longest wait for an answer that is not streamed. */
function renderChanges(changes: readonly Change[], answers: readonly Answered[]): string {
  const before = { what: "before", from: 0, until: (changes[0]?.from ?? 0) - 1 };
  return [before, ...changes]
    .map((change) => {
      const during = answersDuring(change, answers);
      const waits = during.filter(({ what, left }) => !left && !/stream|lost/.test(what));
      const longestMs = Math.max(0, ...waits.map(({ startedAt, endedAt }) => endedAt - startedAt));
      const refused = during.filter(({ status, asked }) => status === 503 && !asked);
      const took = change === before ? "" : `${change.until - change.from} ms, `;
      return `${new Date(change.until).toISOString()} ${change.what}: ${took}${during.length} calls, ${refused.length} answered 503, longest wait ${longestMs} ms`;
    })
    .join("\n");
}

/** Waits until no email is pending. @returns those that still are */
async function waitForMails<Row>(read: () => Promise<Row[]>): Promise<Row[]> {
  const deadline = Date.now() + settleLimitMs;
  for (;;) {
    const pending = await read();
    if (pending.length === 0 || Date.now() > deadline) return pending;
    await sleep(200);
  }
}
