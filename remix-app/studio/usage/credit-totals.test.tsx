import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { BalanceChanges, CreditsUsed } from "./credit-totals.tsx";

/** Returns the label and the amount of each line. */
const linesOf = (html: string) =>
  [...html.matchAll(/<dt[^>]*>([^<]*)<\/dt><dd[^>]*>([^<]*)<\/dd>/g)].map(([, label, amount]) => [label, amount]);
const changes = { opening: "100", added: "500", deducted: "3", runs: "0.0615", otherRuns: "7", closing: "589.9385" };
const totals = {
  runCredits: "20.0615",
  otherDeductions: "3",
  usedCredits: "23.0615",
  unmeteredCredits: "0",
  addedCredits: "500",
};

test("the changes of a balance add up to its closing balance, with the same decimals", () => {
  expect(linesOf(renderToStaticMarkup(<BalanceChanges payer="member" changes={changes} />))).toEqual([
    ["Opening balance", "100.0000"],
    ["Added", "500.0000"],
    ["Deducted", "−3.0000"],
    ["Your runs in this workspace", "−0.0615"],
    ["Runs in your other workspaces", "−7.0000"],
    ["Closing balance", "589.9385"],
  ]);
});

test.each([
  [true, "Paid from members’ own balances"],
  [false, "Charged outside this range"],
])("what the workspace’s balance didn’t pay is one line, whether members paid it: %s", (membersPaid, label) => {
  const html = renderToStaticMarkup(
    <CreditsUsed
      totals={totals}
      elsewhere={{ credits: "20", membersPaid }}
      accounts={[{ payer: "workspace", changes }]}
      payer="workspace"
    />,
  );
  expect(linesOf(html)).toEqual([
    ["Paid from the workspace’s balance", "0.0615"],
    [label, "20.0000"],
    ["Billed for runs", "20.0615"],
    ["Adjustments", "3.0000"],
    ["Total used", "23.0615"],
    ["Not billed", "0.0000"],
  ]);
});
