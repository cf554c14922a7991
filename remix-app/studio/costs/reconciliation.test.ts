import { describe, expect, test } from "vitest";
import type { ReconciledMonth } from "./provider-import-schema.ts";
import { cellsOf, linesOf } from "./reconciliation.ts";

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
    expect(stateOf({ importedRecords: 0, invoices: 0, meteredUsd: "0" })).toBe("agrees");
    // A month without charges has no invoice.
    const nothing = { importedUsd: "0", invoicedUsd: "0", meteredUsd: "0" };
    expect(stateOf(nothing)).toBe("agrees");
    expect(stateOf({ ...nothing, invoices: 0 })).toBe("agrees");
    const uncharged = { ...nothing, meteredUsd: "10", importedDifferenceUsd: "-10", invoices: 0 };
    expect(stateOf(uncharged)).toBe("metering_differs");
  });

  test("a month has no metering difference if metering is hidden or nothing ran", () => {
    expect(stateOf({ meteredUsd: null, importedDifferenceUsd: null })).toBe("agrees");
    expect(stateOf({ meteredUsd: "0", importedDifferenceUsd: "10", runs: 0 })).toBe("agrees");
    expect(stateOf({ meteredUsd: "0", importedDifferenceUsd: "10", runs: 1 })).toBe("metering_differs");
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
