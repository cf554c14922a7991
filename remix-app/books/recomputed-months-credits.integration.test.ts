import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { firstOf, lastOf, plusDays, threeMonths } from "../../supabase/tests/finance/recomputed-months/calendar.ts";
import {
  changesOf,
  entriesOf,
  listUse,
  usedIn,
  type Window,
} from "../../supabase/tests/finance/recomputed-months/compute-credits.ts";
import { sum, text, unitsOf } from "../../supabase/tests/finance/recomputed-months/decimals.ts";
import { type Entry, type Payer, plantCredits } from "../../supabase/tests/finance/recomputed-months/plant-credits.ts";
import { createRandom, seed } from "../../supabase/tests/finance/recomputed-months/random.ts";
import {
  canonical,
  exactAmount,
  factsOf,
  parsePage,
  readApi,
  rowsOf,
  tableOf,
} from "../../supabase/tests/finance/recomputed-months/read-answers.ts";
import { type RecordedCredits, recordCredits } from "../../supabase/tests/finance/recomputed-months/record-credits.ts";

// Plants three months of random credits of two workspaces whose plan changed in the second month, and recomputes their
// balances, lists and statements. The arithmetic shares no code with the product. BOOKS_SEED repeats a run.

const months = threeMonths(6);
const changes = [
  { name: "from members' balances to its own", payers: ["members", "workspace"], plans: ["free", "team"] },
  { name: "from its own balance to members'", payers: ["workspace", "members"], plans: ["team", "free"] },
] as const;

const windowOf = (first: string, last: string): Window => ({
  from: Date.parse(`${first}T00:00:00Z`),
  to: Date.parse(`${plusDays(last, 1)}T00:00:00Z`),
});
const ranges = [
  ...months.map((month) => [firstOf(month), lastOf(month)] as const),
  [firstOf(months[0] ?? ""), lastOf(months[2] ?? "")] as const,
];
const timeOf = (shown: string) => Date.parse(shown);

describe.each(changes)(`a workspace that changed its plan $name (seed ${seed})`, ({ payers, plans }) => {
  const ledger = plantCredits(createRandom(seed), { payers, months });
  /** The balances that Ann sees: the workspace's and, if members pay, her own. */
  const shown: Payer[] = payers[1] === "members" ? ["workspace", "ann"] : ["workspace"];
  const payerOf = (payer: Payer) => (payer === "workspace" ? "workspace" : "member");
  let credits: RecordedCredits;
  beforeAll(async () => {
    credits = await recordCredits(ledger, { plans });
  }, 60_000);
  afterAll(() => credits.close());
  const path = () => `/workspaces/${credits.workspaceId}/ai/credits`;

  /** Returns the entries that the ledger lists, newest first: not those of runs of other workspaces. */
  function listedEntries(window: Window): Entry[] {
    const within = shown.flatMap((payer) => entriesOf(ledger, { payer, window }).within);
    return ledger.entries.filter((entry) => within.includes(entry) && !entry.run?.isElsewhere).reverse();
  }

  test("grants, deductions, corrections, and runs of both plans, members and workspaces occur in the month of the change", () => {
    const month = months[1] ?? "";
    const window = windowOf(firstOf(month), lastOf(month));
    expect(ledger.changedAt).toBeGreaterThan(window.from);
    expect(ledger.changedAt).toBeLessThan(window.to);
    const kindsIn = ({ from, to }: Window) => {
      const entries = ledger.entries.filter(({ at }) => at >= from && at < to);
      const kinds = entries.map(({ payer, kind, amount, run }) => {
        const name = payer === "workspace" ? "workspace" : "member";
        return `${name} ${run ? kind : amount > 0n ? "added" : "deducted"}`;
      });
      return [...new Set(kinds)].sort();
    };
    const expected = ["member", "workspace"].flatMap((name) =>
      ["added", "adjustment", "deducted", "usage"].map((kind) => `${name} ${kind}`),
    );
    expect(kindsIn(window)).toEqual(expected);
    expect(changesOf(ledger, { payer: "ann", window }).elsewhere).not.toBe(0n);
    const used = usedIn(ledger, { shown, window });
    expect(used.elsewhere).not.toBe(0n);
    expect(used.byOthers).not.toBe(0n);
    expect(used.unmetered).not.toBe(0n);
    const crossing = ledger.entries.filter(({ at, run }) => run && run.at < window.from && at >= window.from);
    expect(crossing.length).toBeGreaterThan(0);
  });

  test.for(ranges)("the API's credits from %s to %s are the recomputed ones", async ([first, last]) => {
    const window = windowOf(first, last);
    const query = `?from=${first}T00:00:00Z&to=${plusDays(last, 1)}T00:00:00Z&limit=50`;
    const { workspaceId } = credits;
    const page = await readApi(credits.ann.browser, { workspaceId, path: `/credits${query}` });
    for (let next = page.nextCursor; next !== null; ) {
      const more = await readApi(credits.ann.browser, { workspaceId, path: `/credits${query}&cursor=${next}` });
      page.entries.push(...more.entries);
      next = more.nextCursor;
    }
    const used = usedIn(ledger, { shown, window });
    const accounts = shown.map((payer) => {
      const change = changesOf(ledger, { payer, window });
      return {
        payer: payerOf(payer),
        balance: text(changesOf(ledger, { payer, window: { from: 0, to: Number.POSITIVE_INFINITY } }).closing),
        changes: {
          opening: text(change.opening),
          added: text(change.added),
          deducted: text(-change.deducted),
          runs: text(-change.used - change.corrected),
          otherRuns: text(-change.elsewhere),
          closing: text(change.closing),
        },
      };
    });
    expect(page).toMatchObject({
      payer: payers[1] === "members" ? "member" : "workspace",
      accounts,
      elsewhere: { credits: text(used.elsewhere), membersPaid: used.elsewhere !== 0n },
      totals: {
        runCredits: text(used.billed),
        otherDeductions: text(used.deducted),
        usedCredits: text(used.used),
        unmeteredCredits: text(used.unmetered),
        addedCredits: text(used.added),
      },
    });
    const entries = page.entries.map((entry: Record<string, string>) => [
      ...[timeOf(entry.createdAt ?? ""), entry.payer, entry.kind, entry.amount, entry.balanceAfter, entry.runId],
      entry.description,
    ]);
    expect(entries).toEqual(
      listedEntries(window).map((entry) => [
        ...[entry.at, payerOf(entry.payer), entry.kind, text(entry.amount), text(balanceAfter(entry))],
        ...[entry.run?.id ?? null, entry.description],
      ]),
    );
  });

  /** Returns the balance after an entry. */
  function balanceAfter(entry: Entry): bigint {
    const before = ledger.entries.slice(0, ledger.entries.indexOf(entry) + 1);
    return sum(before.filter(({ payer }) => payer === entry.payer).map(({ amount }) => amount));
  }

  test.for(ranges)("the ledger's file from %s to %s adds up to each balance", async ([first, last]) => {
    const window = windowOf(first, last);
    const rows = await rowsOf(credits.ann.browser, `${path()}.csv?from=${first}&to=${last}`);
    const listed = listedEntries(window).map((entry) => [
      ...[entry.at, entry.kind, payerOf(entry.payer), text(entry.amount), text(balanceAfter(entry))],
      ...[entry.run?.id ?? "", entry.description ?? ""],
    ]);
    const balances = shown.flatMap((payer) => {
      const { opening, elsewhere, closing } = changesOf(ledger, { payer, window });
      const name = payerOf(payer);
      return [
        [window.to, "closing_balance", name, "", text(closing), "", ""],
        ...(elsewhere === 0n
          ? []
          : [
              [
                window.from,
                "other_workspaces",
                name,
                text(elsewhere),
                "",
                "",
                "Runs in your other workspaces in this range",
              ],
            ]),
        [window.from, "opening_balance", name, "", text(opening), "", ""],
      ];
    });
    const shownRows = rows.map(({ time = "", ...row }) => [timeOf(time), ...Object.values(row)]);
    expect(shownRows).toEqual([...listed, ...balances]);
    for (const payer of shown) {
      const own = rows.filter((row) => row.payer === payerOf(payer));
      const { opening, closing } = changesOf(ledger, { payer, window });
      expect(sum(own.map((row) => unitsOf(row.credits ?? "")))).toBe(closing - opening);
    }
  });

  test.for(ranges)("the credits page from %s to %s explains the balances and the use", async ([first, last]) => {
    const window = windowOf(first, last);
    const { text: html } = await credits.ann.browser.get(`${path()}?from=${first}&to=${last}`);
    const cards = factsOf(parsePage(html));
    for (const payer of shown) {
      const { opening, added, deducted, used, corrected, elsewhere, closing } = changesOf(ledger, { payer, window });
      const isOwn = payer !== "workspace";
      expectLines(cards[isOwn ? "Your balance in this range" : "The workspace’s balance in this range"], {
        "Opening balance": opening,
        Added: added,
        ...(deducted === 0n ? {} : { Deducted: deducted }),
        [isOwn ? "Your runs in this workspace" : "Runs"]: used + corrected,
        ...(elsewhere === 0n ? {} : { "Runs in your other workspaces": elsewhere }),
        "Closing balance": closing,
      });
    }
    const used = usedIn(ledger, { shown, window });
    const paid = shown.flatMap((payer, place) => {
      const name = payer === "workspace" ? "Paid from the workspace’s balance" : "Paid from your balance";
      const amount = used.paid[place] ?? 0n;
      return amount === 0n ? [] : [[name, amount] as const];
    });
    const others = payers[1] === "members" ? "Paid by other members" : "Paid from members’ own balances";
    expectLines(cards["Used in this range"], {
      ...(used.elsewhere !== 0n || paid.length > 1 ? Object.fromEntries(paid) : {}),
      ...(used.elsewhere === 0n ? {} : { [others]: used.elsewhere }),
      "Billed for runs": used.billed,
      ...(used.deducted === 0n ? {} : { Adjustments: used.deducted }),
      "Total used": used.used,
      "Not billed": used.unmetered,
    });
  });

  /** Returns the lines of a statement: those that are always shown, and the others unless they are 0. */
  function statementLines(payer: Payer, window: Window): Record<string, bigint> {
    const { opening, added, deducted, used, corrected, elsewhere, closing } = changesOf(ledger, { payer, window });
    return {
      "Opening balance": opening,
      Added: added,
      ...(deducted === 0n ? {} : { "Deducted without a run": deducted }),
      "Used in this workspace": used,
      ...(corrected === 0n ? {} : { "Corrections of runs": corrected }),
      ...(elsewhere === 0n ? {} : { "Used in your other workspaces": elsewhere }),
      "Closing balance": closing,
    };
  }

  const changesIn = (payer: Payer, window: Window) =>
    entriesOf(ledger, { payer, window }).within.filter(({ run }) => run === null);
  const memberOf = (id: string) => (id === credits.ann.id ? "ann" : id === credits.bob.id ? "bob" : id);

  test.for(months)("the statement of %s adds up on its page, in its CSV and in its JSON", async (month) => {
    const window = windowOf(firstOf(month), lastOf(month));
    const { byOthers } = usedIn(ledger, { shown, window });
    const { text: html, words } = await credits.ann.browser.get(`${path()}/statement?month=${month}`);
    const rows = await rowsOf(credits.ann.browser, `${path()}/statement.csv?month=${month}`);
    const { text: json } = await credits.ann.browser.get(`${path()}/statement.json?month=${month}`);
    const page = parsePage(html);
    const statement = JSON.parse(json);
    expect(statement.accounts.map(({ payer }: { payer: string }) => payer)).toEqual(shown.map(payerOf));
    expect(statement.paidByMembers).toBe(text(byOthers));
    const paid = rows.filter(({ row }) => row === "paid_by_members").map((row) => row.credits);
    expect(paid).toEqual(byOthers === 0n ? [] : [text(byOthers)]);
    expect(words.includes("Members also paid")).toBe(byOthers !== 0n);
    if (byOthers !== 0n) expect(html).toContain(`title="${text(byOthers).replace("-", "−")}"`);
    for (const [place, payer] of shown.entries()) {
      const account = statement.accounts[place];
      const lines = statementLines(payer, window);
      const name = payer === "workspace" ? "The workspace’s balance" : "Your balance";
      const own = (kind: string) => rows.filter((row) => row.row === kind && row.payer === payerOf(payer));
      expectLines(factsOf(page)[name], lines);
      expect(own("balance").map(({ label, credits: amount }) => [label, amount])).toEqual(
        Object.entries(lines).map(([label, amount]) => [label, text(amount)]),
      );
      const { opening, added, deducted, used, corrected, elsewhere, closing } = changesOf(ledger, { payer, window });
      expect(account).toMatchObject({
        ...{ opening: text(opening), added: text(added), deducted: text(-deducted), used: text(-used) },
        ...{ corrected: text(corrected), usedElsewhere: text(-elsewhere), closing: text(closing), unexplained: "0" },
      });
      const changed = changesIn(payer, window);
      expect(account.changes.map((each: Record<string, string>) => [timeOf(each.at ?? ""), each.credits])).toEqual(
        changed.map(({ at, amount }) => [at, text(amount)]),
      );
      expect(own("change").map((row) => [timeOf(row.time ?? ""), row.label, row.credits])).toEqual(
        changed.map(({ at, kind, description, amount }) => [at, description ?? kind, text(amount)]),
      );
      expect(tableOf(page, `Added and deducted, ${name}`).map(({ cells }) => exactAmount(cells.at(-1)))).toEqual(
        changed.map(({ amount }) => text(amount)),
      );
      const use = listUse(ledger, { payer, window });
      expect(
        account.use
          .map(
            (each: Record<string, string>) =>
              `${each.model} ${memberOf(each.memberId ?? "")} ${each.requests} ${each.credits}`,
          )
          .sort(),
      ).toEqual(use);
      expect(
        own("use")
          .map((row) => `${row.model} ${memberOf(row.member_id ?? "")} ${row.requests} ${row.credits}`)
          .sort(),
      ).toEqual(use);
      const amounts = tableOf(page, `Use by model and member, ${name}`).map(({ cells }) => exactAmount(cells.at(-1)));
      expect(amounts.sort()).toEqual(use.map((each) => each.split(" ").at(-1)).sort());
    }
  });
});

/** Checks the exact amounts of a page's lines, in their order. */
function expectLines(lines: Record<string, string> | undefined, expected: Record<string, bigint>) {
  const shown = Object.entries(lines ?? {}).map(([label, amount]) => [label, canonical(amount)]);
  expect(shown).toEqual(Object.entries(expected).map(([label, amount]) => [label, text(amount)]));
}
