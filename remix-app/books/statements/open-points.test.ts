import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test } from "vitest";
import { openPointKinds } from "../../studio/costs/reconciliation.ts";
import { ExceptionTable } from "./exception-table.tsx";
import { earlierReasons, explainPoints, groupPoints, maxPointsPerKind, openPointsOf } from "./open-points.ts";
import { ReasonFields } from "./reason-fields.tsx";
import { maxReasonFields, pointField, pointName, readReasons, reasonErrors, reasonField } from "./reason-form.ts";
import type { ProviderFigures } from "./statement.ts";

const none = { meteredUsd: "0", importedUsd: "0", invoicedUsd: "0", runs: 0, importedRecords: 0, invoices: 0 };
/** The figures of providers' accounts, by kind of open point. */
const figuresOf: Record<string, Partial<ProviderFigures>> = {
  nothing_reported: { meteredUsd: "3", runs: 1 },
  costs_missing: { meteredUsd: "3", runs: 1, invoicedUsd: "4", invoices: 1 },
  invoice_missing: { meteredUsd: "3", runs: 1, importedUsd: "3", importedRecords: 1 },
  invoice_differs: {
    ...{ meteredUsd: "3", runs: 1, importedUsd: "3", importedRecords: 1 },
    invoicedUsd: "4",
    invoices: 1,
  },
  metering_differs: {
    ...{ meteredUsd: "3", runs: 1, importedUsd: "4", importedRecords: 1 },
    invoicedUsd: "4",
    invoices: 1,
  },
  not_metered: { importedUsd: "4", importedRecords: 1, invoicedUsd: "4", invoices: 1 },
};
const pointsOf = (providers: number) =>
  openPointsOf(
    Object.entries(figuresOf).flatMap(([kind, figures]) =>
      Array.from({ length: providers }, (_, n) => ({
        provider: `${kind}-${n}`.replace("_", "-"),
        ...none,
        ...figures,
      })),
    ),
  );

/** Returns the fields of the form, with the same reason in each. */
function fieldsOf(points: ReturnType<typeof pointsOf>, reason: string): Record<string, string> {
  return Object.fromEntries(
    groupPoints(points).flatMap((group, index) => [
      [pointField(index), pointName(group)],
      [reasonField(index), reason],
    ]),
  );
}

test("a provider's open points are those of the sum of its accounts", () => {
  const accounts = [
    { provider: "a", ...none, meteredUsd: "0.1", runs: 1 },
    { provider: "a", ...none, importedUsd: "0.1", importedRecords: 1 },
    { provider: "a", ...none, invoicedUsd: "0.3", invoices: 1 },
  ];
  expect(openPointsOf(accounts)).toEqual([
    {
      provider: "a",
      kind: "invoice_differs",
      meteredUsd: "0.1",
      importedUsd: "0.1",
      invoicedUsd: "0.3",
      amountUsd: "0.2",
    },
  ]);
});

describe("reasons", () => {
  test.for([
    [maxPointsPerKind, maxPointsPerKind * openPointKinds.length],
    [maxPointsPerKind + 1, openPointKinds.length],
    [1_000, openPointKinds.length],
  ] as const)(
    "of %s open points of each kind, %s reasons are needed, in a form of less than 50 kB",
    ([providers, count]) => {
      const points = pointsOf(providers);
      expect(points).toHaveLength(providers * openPointKinds.length);
      const groups = groupPoints(points);
      expect(groups).toHaveLength(count);
      expect(Object.keys(fieldsOf(points, "x")).length).toBeLessThan(maxReasonFields);
      const html = renderToStaticMarkup(
        createElement(ReasonFields, { groups, month: "2026-10", reasons: [], errors: {} }),
      );
      expect(html.match(/<fieldset/g)).toHaveLength(count);
      expect(html.length).toBeLessThan(50_000);
      const reasons = readReasons(fieldsOf(points, " known "));
      expect(reasonErrors(groups, reasons)).toEqual({});
      const explained = explainPoints(points, reasons);
      expect(new Set(explained.map(({ provider }) => provider)).size).toBe(providers * openPointKinds.length);
      expect(new Set(explained.map(({ reason }) => reason))).toEqual(new Set(["known"]));
    },
  );

  test("a missing reason and one of more than 500 characters are named by field", () => {
    const groups = groupPoints([...pointsOf(1).slice(0, 1), ...pointsOf(6).slice(-6)]);
    const fields = {
      point_0: "not_metered",
      reason_0: "",
      point_1: "nothing_reported nothing-reported-0",
      reason_1: "x".repeat(501),
    };
    expect(reasonErrors(groups, readReasons(fields))).toEqual({
      reason_0: "Enter a reason for Not metered",
      reason_1: "Enter at most 500 characters",
    });
    // A reason for one provider is not one for all.
    expect(explainPoints(pointsOf(6), readReasons({ point_0: "not_metered a", reason_0: "x" }))[0]?.reason).toBe("");
  });
});

test("points that are closed again have their earlier reasons, and a group only if all of it had the same", () => {
  const [first, ...others] = openPointKinds;
  const earlier = pointsOf(6).map((point) => {
    const isOther = point.kind === first && point.provider.endsWith("-0");
    return { ...point, reason: isOther ? "other" : `about ${point.kind}` };
  });
  expect(earlierReasons(groupPoints(pointsOf(6)), earlier)).toEqual(
    others.map((kind) => ({ kind, provider: null, reason: `about ${kind}` })),
  );
  const own = earlierReasons(groupPoints(pointsOf(1)), earlier);
  expect(own[0]).toMatchObject({ kind: first, reason: "other" });
  expect(earlierReasons(groupPoints(pointsOf(1)), [])).toEqual([]);
});

test("a statement lists 20 exceptions, and sums more by kind and reason", () => {
  const render = (providers: number, reason: string, count?: number) =>
    renderToStaticMarkup(
      createElement(ExceptionTable, {
        exceptions: pointsOf(providers)
          .slice(0, count)
          .map((point) => ({ ...point, reason })),
      }),
    );
  const listed = render(4, "x".repeat(500), 20);
  expect(listed.match(/<tr>/g)).toHaveLength(20);
  expect(listed.length).toBeLessThan(30_000);
  expect(render(4, "known", 21).match(/<tr>/g)).toHaveLength(6);
  const summed = render(1_000, "x".repeat(500));
  expect(summed.match(/<tr>/g)).toHaveLength(6);
  expect(summed).toContain("1,000 providers");
  expect(summed).toContain("$3,000.00");
  expect(summed).toContain("6,000 exceptions by provider are in the CSV.");
});
