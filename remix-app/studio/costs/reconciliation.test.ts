import { describe, expect, test } from "vitest";
import type { ReconciledMonth } from "./provider-import-schema.ts";
import {
  type CellState,
  cellsOf,
  isActionNeeded,
  linesOf,
  listOpenPoints,
  nextStep,
  stateTexts,
} from "./reconciliation.ts";

const month: ReconciledMonth = {
  month: "2026-01",
  provider: "openai",
  meteredUsd: "10",
  importedUsd: "10",
  invoicedUsd: "10",
  importedDifferenceUsd: "0",
  invoicedDifferenceUsd: "0",
  runs: 3,
  importedRecords: 2,
  invoices: 1,
  accounts: [],
};
type Account = ReconciledMonth["accounts"][number];
const stateOf = (changes: Partial<ReconciledMonth> = {}, today = "2026-02-01") =>
  cellsOf({ ...month, ...changes }, { today })[0]?.state;

describe("the state of a month", () => {
  test("a month's state is `agrees` if all three amounts are equal, and `rounding` if they differ by less than half a cent", () => {
    expect(stateOf()).toBe("agrees");
    for (const sign of ["", "-"]) {
      expect(stateOf({ invoicedDifferenceUsd: `${sign}0.000000000001` })).toBe("rounding");
      expect(stateOf({ invoicedDifferenceUsd: `${sign}0.004999999999` })).toBe("rounding");
      expect(stateOf({ invoicedDifferenceUsd: `${sign}0.005` })).toBe("invoice_differs");
      expect(stateOf({ importedDifferenceUsd: `${sign}0.004999999999` })).toBe("rounding");
      expect(stateOf({ importedDifferenceUsd: `${sign}0.005` })).toBe("metering_differs");
    }
  });

  test("a month's costs or invoice count as missing if no records exist, but not if the records add up to zero", () => {
    expect(stateOf({ invoices: 0, invoicedUsd: "0", invoicedDifferenceUsd: "-10" })).toBe("invoice_missing");
    expect(stateOf({ importedRecords: 0, importedUsd: "0", invoicedDifferenceUsd: "10" })).toBe("costs_missing");
    expect(stateOf({ importedRecords: 0, invoices: 0 })).toBe("nothing_reported");
    expect(stateOf({ importedRecords: 0, invoices: 0, meteredUsd: null })).toBe("nothing_reported");
    // Free calls need no cost report.
    expect(stateOf({ importedRecords: 0, importedUsd: "0", invoices: 0, invoicedUsd: "0", meteredUsd: "0" })).toBe(
      "agrees",
    );
    // A month without charges has no invoice.
    const nothing = { importedUsd: "0", invoicedUsd: "0", meteredUsd: "0" };
    expect(stateOf(nothing)).toBe("agrees");
    expect(stateOf({ ...nothing, invoices: 0 })).toBe("agrees");
    const uncharged = { ...nothing, meteredUsd: "10", importedDifferenceUsd: "-10", invoices: 0 };
    expect(stateOf(uncharged)).toBe("metering_differs");
  });

  test("a month is not metered if something was charged without any run", () => {
    const unmetered = { meteredUsd: "0", importedDifferenceUsd: "10", runs: 0 };
    expect(stateOf(unmetered)).toBe("not_metered");
    expect(stateOf({ ...unmetered, runs: 1 })).toBe("metering_differs");
    expect(stateOf({ ...unmetered, invoices: 0, invoicedUsd: "0" })).toBe("not_metered");
    expect(stateOf({ ...unmetered, importedRecords: 0, importedUsd: "0" })).toBe("not_metered");
    expect(stateOf({ ...unmetered, importedUsd: "0", invoicedUsd: "0" })).toBe("agrees");
    // Whether metering is hidden doesn't matter.
    expect(stateOf({ meteredUsd: null, importedDifferenceUsd: null })).toBe("agrees");
    expect(stateOf({ meteredUsd: null, importedDifferenceUsd: null, runs: 0 })).toBe("not_metered");
  });

  test("the next step of charges without any run says what else is missing", () => {
    const stepOf = (changes: Partial<ReconciledMonth>) => {
      const [cell] = cellsOf({ ...month, runs: 0, meteredUsd: "0", ...changes }, { today: "2026-02-01" });
      return cell && nextStep(cell);
    };
    expect(stepOf({})).toMatch(/The invoice matches the imported costs\.$/);
    expect(stepOf({ invoicedDifferenceUsd: "1" })).toMatch(/The invoice differs from the imported costs\.$/);
    expect(stepOf({ invoices: 0, invoicedUsd: "0" })).toMatch(/No invoice is recorded\.$/);
    expect(stepOf({ importedRecords: 0, importedUsd: "0" })).toMatch(/The costs aren’t imported\.$/);
  });

  test("a line without costs or without an invoice has no difference from them", () => {
    const differencesOf = (changes: Partial<ReconciledMonth>) => {
      const [cell] = cellsOf({ ...month, ...changes }, { today: "2026-02-01" });
      return [cell?.importedDifferencePercent, cell?.invoicedDifferenceUsd, cell?.invoicedDifferencePercent];
    };
    expect(differencesOf({})).toEqual(["0", "0", "0"]);
    expect(differencesOf({ invoices: 0, invoicedUsd: "0", invoicedDifferenceUsd: "-10" })).toEqual(["0", null, null]);
    const nothing = { importedRecords: 0, importedUsd: "0", importedDifferenceUsd: "-10", invoicedDifferenceUsd: "10" };
    expect(differencesOf(nothing)).toEqual([null, null, null]);
  });

  test("a month is open until its last day has ended", () => {
    expect(stateOf({ invoices: 0 }, "2026-01-31")).toBe("open");
    expect(stateOf({ invoices: 0 }, "2026-02-01")).toBe("invoice_missing");
  });

  test("a month lists each account with its state, and with an unknown metered amount if runs name no account", () => {
    const unknown = { meteredUsd: null, importedDifferenceUsd: null, runs: null };
    const amounts = { ...unknown, invoicedUsd: "4", invoicedDifferenceUsd: "-1", importedRecords: 1, invoices: 1 };
    const cells = cellsOf(
      {
        ...month,
        invoices: 0,
        accounts: [
          { accountId: null, ...amounts, importedUsd: "5", invoices: 0, invoicedUsd: "0", invoicedDifferenceUsd: "-5" },
          { accountId: "acct-1", ...amounts, importedUsd: "5" },
        ],
      },
      { today: "2026-03-01" },
    );
    expect(cells.map(({ account, state, meteredUsd, repeats }) => [account, state, meteredUsd, repeats])).toEqual([
      [{ of: "all" }, "invoice_missing", "10", false],
      [{ of: "one", id: null }, "invoice_missing", null, true],
      [{ of: "one", id: "acct-1" }, "invoice_differs", null, false],
    ]);
    expect(cells[2]).toMatchObject({ invoicedDifferencePercent: "-20", importedDifferencePercent: null });
    // If no record names an account, only the provider's line is shown.
    const alone = [{ accountId: null, ...amounts, importedUsd: "5" }];
    expect(cellsOf({ ...month, accounts: alone }, { today: "2026-03-01" })).toHaveLength(1);
  });

  test("an account is not reported as missing an invoice if one invoice covers several accounts", () => {
    const unknown = { ...month, meteredUsd: null, importedDifferenceUsd: null, runs: null };
    const costs = {
      ...unknown,
      importedUsd: "5",
      invoicedUsd: "0",
      invoicedDifferenceUsd: "-5",
      importedRecords: 1,
      invoices: 0,
    };
    const bill = { ...unknown, importedUsd: "0", invoicedUsd: "10", invoicedDifferenceUsd: "10", importedRecords: 0 };
    const statesOf = (billed: string | null, changes: Partial<ReconciledMonth> = {}) =>
      cellsOf(
        {
          ...month,
          ...changes,
          accounts: [
            { ...bill, accountId: billed },
            { ...costs, accountId: "acct-1" },
            { ...costs, accountId: "acct-2" },
          ],
        },
        { today: "2026-03-01" },
      ).map(({ state }) => state);
    const together = ["billed_together", "billed_together", "billed_together"];
    // An invoice without an account covers all accounts. An invoice for one account counts for the other accounts only
    // if the month's totals match.
    const short = { invoicedDifferenceUsd: "-2" };
    expect(statesOf(null)).toEqual(["agrees", ...together]);
    expect(statesOf("payer")).toEqual(["agrees", ...together]);
    expect(statesOf(null, short)).toEqual(["invoice_differs", ...together]);
    expect(statesOf("payer", short)).toEqual([
      "invoice_differs",
      "costs_missing",
      "invoice_missing",
      "invoice_missing",
    ]);
  });

  test.for<[string, [Partial<Account>, Partial<Account>], [CellState, CellState]]>([
    ["an invoice", [{ importedRecords: 0, runs: 0 }, { invoices: 0 }], ["billed_together", "billed_together"]],
    [
      "an invoice, and the account's metering differs",
      [
        { importedRecords: 0, runs: 0 },
        { invoices: 0, importedDifferenceUsd: "1" },
      ],
      ["billed_together", "metering_differs"],
    ],
    [
      "an invoice, and the account is not metered",
      [
        { importedRecords: 0, runs: 0 },
        { invoices: 0, runs: 0 },
      ],
      ["not_metered", "not_metered"],
    ],
    ["costs", [{ invoices: 0, runs: 0 }, { importedRecords: 0 }], ["billed_together", "billed_together"]],
    ["costs and an invoice", [{ runs: 0 }, { importedRecords: 0, invoices: 0 }], ["agrees", "billed_together"]],
    [
      "an invoice and some costs",
      [{ runs: 0, importedUsd: "1", invoicedDifferenceUsd: "9" }, { invoices: 0 }],
      ["not_metered", "billed_together"],
    ],
    ["some costs only", [{ runs: 0, importedUsd: "1", invoices: 0 }, {}], ["not_metered", "agrees"]],
  ])("an account's line below %s without an account shows only what it can have", ([, changes, states]) => {
    const accountOf = (change: Partial<Account>): Account => ({
      ...month,
      accountId: null,
      ...(change.importedRecords === 0 ? { importedUsd: "0" } : {}),
      ...(change.invoices === 0 ? { invoicedUsd: "0" } : {}),
      ...(change.runs === 0 ? { meteredUsd: "0" } : {}),
      ...change,
    });
    const [unnamed, named] = [accountOf(changes[0]), accountOf(changes[1])];
    const accounts = [unnamed, { ...named, accountId: "acct-1" }];
    const differs = { invoicedDifferenceUsd: "-2" };
    const cells = cellsOf({ ...month, ...differs, accounts }, { today: "2026-03-01" }).slice(1);
    expect(cells.map(({ state }) => state)).toEqual(states);
    for (const { invoices, importedRecords, invoicedDifferenceUsd } of cells) {
      if (invoices === 0 || importedRecords === 0) expect(invoicedDifferenceUsd).toBeNull();
    }
  });

  test("a line needs action if its state is an open point, which is shown as a warning", () => {
    for (const [state, { tone }] of Object.entries(stateTexts)) {
      expect([state, isActionNeeded({ state: state as CellState })]).toEqual([state, tone === "warn"]);
    }
  });

  test("compares an account's costs with the account's own runs if the runs name the account", () => {
    const account = { ...month, accountId: "acct-1" };
    const statesOf = (changes: Partial<ReconciledMonth["accounts"][number]>) =>
      cellsOf({ ...month, accounts: [{ ...account, ...changes }] }, { today: "2026-03-01" }).map(({ state }) => state);
    expect(statesOf({})).toEqual(["agrees", "agrees"]);
    expect(statesOf({ importedDifferenceUsd: "0.01" })).toEqual(["agrees", "metering_differs"]);
    expect(statesOf({ importedRecords: 0, invoices: 0 })).toEqual(["agrees", "nothing_reported"]);
  });
});

test("a provider's only account has no line of its own, unless the account's state differs from the provider's", () => {
  const amounts = { ...month, runs: null, meteredUsd: null, importedDifferenceUsd: null };
  const linesWith = (...accounts: Partial<ReconciledMonth["accounts"][number]>[]) =>
    linesOf(
      cellsOf(
        { ...month, accounts: accounts.map((account) => ({ ...amounts, accountId: "a", ...account })) },
        { today: "2026-03-01" },
      ),
    ).map(({ cell, only }) => [cell.account, only]);
  expect(linesWith({})).toEqual([[{ of: "all" }, "a"]]);
  expect(linesWith({ invoices: 0 })).toEqual([
    [{ of: "all" }, null],
    [{ of: "one", id: "a" }, null],
  ]);
  expect(linesWith({}, { accountId: "b" })).toHaveLength(3);
});

describe("the open points of a month", () => {
  test.for<[name: string, amounts: (string | null)[], points: string[]]>([
    ["nothing is open if all amounts agree", ["10", "10", "10"], []],
    ["nothing is open if nothing was spent", ["0", "0", null], []],
    ["a difference below half a cent is not open", ["10", "10.004", "10.001"], []],
    ["a difference of half a cent is open", ["10", "10.005", "10.005"], ["metering_differs 0.005"]],
    ["runs without costs and invoice are open", ["10", null, null], ["nothing_reported 10"]],
    ["runs of less than half a cent without costs are open", ["0.001", null, null], ["nothing_reported 0.001"]],
    ["an invoice without costs is open", ["10", null, "10"], ["costs_missing 10"]],
    ["costs without an invoice are open", ["10", "10", null], ["invoice_missing 10"]],
    ["an invoice that differs from the costs is open", ["10", "10", "12"], ["invoice_differs 2"]],
    ["costs without runs are open", [null, "5", "5"], ["not_metered 5"]],
    ["costs without runs and invoice are open twice", [null, "5", null], ["not_metered 5", "invoice_missing 5"]],
    ["an invoice alone is open twice", [null, null, "5"], ["not_metered 5", "costs_missing 5"]],
    ["two differences are open separately", ["10", "11", "12"], ["invoice_differs 1", "metering_differs 1"]],
    ["a difference is exact", ["0.1", "0.3", "0.3"], ["metering_differs 0.2"]],
  ])("%s, and the first is the state of the line", ([, [metered, imported, invoiced], expected]) => {
    const figures = {
      meteredUsd: metered ?? "0",
      importedUsd: imported ?? "0",
      invoicedUsd: invoiced ?? "0",
      runs: metered === null ? 0 : 1,
      importedRecords: imported === null ? 0 : 1,
      invoices: invoiced === null ? 0 : 1,
    };
    const points = listOpenPoints(figures);
    expect(points.map(({ kind, amountUsd }) => `${kind} ${amountUsd}`)).toEqual(expected);
    const differences = {
      importedDifferenceUsd: String(Number(imported) - Number(metered)),
      invoicedDifferenceUsd: String(Number(invoiced) - Number(imported)),
    };
    const [whole] = cellsOf({ ...month, ...figures, ...differences }, { today: "2026-02-01" });
    expect(isActionNeeded({ state: whole?.state ?? "open" })).toBe(points.length > 0);
    if (points[0]) expect(whole?.state).toBe(points[0].kind);
  });
});
