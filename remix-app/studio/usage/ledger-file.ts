import type { AppLoadContext } from "@remix-run/node";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import type { StudioMember } from "../studio-reader.ts";
import { negate } from "./credit-totals.tsx";
import type { LedgerRow } from "./ledger.tsx";
import { type CreditAccount, listLedgerEntries, readCredits } from "./usage.ts";

/**
 * Yields the rows of a ledger file: the entries, newest first, and then each payer's balances. A payer's credits add up to
 * its closing balance less its opening balance, because the runs of other workspaces, which the ledger doesn't list, are
 * a row of their own.
 * @throws Response like {@link readCredits}
 */
export async function* ledgerFilePages(
  context: AppLoadContext,
  { reader, range }: { reader: StudioMember; range: { from: string; to: string } },
): AsyncGenerator<readonly LedgerRow[], void> {
  const query = { ...range, limit: recordsPerRead, cursor: undefined };
  // Only the first page has the balances.
  const { accounts, from, to, entries, nextCursor } = await readCredits(context, { reader, query });
  yield entries;
  if (nextCursor !== null) {
    yield* eachPage((cursor = nextCursor) => listLedgerEntries(context, { reader, query: { ...query, cursor } }));
  }
  yield accounts.flatMap((account) => [
    balanceRow(account, { kind: "closing_balance", at: to }),
    ...otherWorkspacesRow(account, from),
    balanceRow(account, { kind: "opening_balance", at: from }),
  ]);
}

function balanceRow(
  { payer, changes }: CreditAccount,
  { kind, at }: { kind: "opening_balance" | "closing_balance"; at: string },
): LedgerRow {
  const balanceAfter = kind === "opening_balance" ? changes.opening : changes.closing;
  return { createdAt: at, kind, payer, amount: null, balanceAfter, runId: null, description: null };
}

function otherWorkspacesRow({ payer, changes: { otherRuns } }: CreditAccount, at: string): LedgerRow[] {
  if (otherRuns === "0") return [];
  return [
    {
      createdAt: at,
      kind: "other_workspaces",
      payer,
      amount: negate(otherRuns),
      balanceAfter: null,
      runId: null,
      description: "Runs in your other workspaces in this range",
    },
  ];
}
