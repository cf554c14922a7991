import { negate } from "../usage/credit-totals.tsx";
import type { CreditAccount } from "./statement.ts";

/** The lines of an account from its opening to its closing balance, which add up. Optional lines appear if not zero. */
export function statementLines(account: CreditAccount): { label: string; credits: string; isBalance?: boolean }[] {
  const { opening, added, deducted, used, corrected, usedElsewhere, unexplained, closing } = account;
  const optional = (label: string, credits: string) => (credits === "0" ? [] : [{ label, credits }]);
  return [
    { label: "Opening balance", credits: opening, isBalance: true },
    { label: "Added", credits: added },
    ...optional("Deducted without a run", negate(deducted)),
    { label: "Used in this workspace", credits: negate(used) },
    ...optional("Corrections of runs", corrected),
    ...optional("Used in your other workspaces", negate(usedElsewhere)),
    ...optional("Not explained by the ledger", unexplained),
    { label: "Closing balance", credits: closing, isBalance: true },
  ];
}
