import type { ReconciledCell } from "../../studio/costs/reconciliation.ts";
import { recordLinks } from "../../studio/costs/reconciliation-links.ts";
import type { CellLink } from "../../studio/costs/reconciliation-table.tsx";

const base = "/admin/books";

/** The page that says where a provider's month comes from. */
export function providerPage({ month, provider }: { month: string; provider: string }): string {
  return `${base}/${month}/${encodeURIComponent(provider)}`;
}

/**
 * Returns where a line of the platform's reconciliation leads: to its records, and to what its status asks for.
 * @param only the account that all of a provider's line is of, if there is one
 */
export function bookLinks(cell: ReconciledCell, only: string | null): CellLink[] {
  return recordLinks(cell, { base, only, importTo: `${base}/import`, ofCosts: { month: cell.month } });
}

/** As {@link bookLinks}, beginning with the page of the provider's month. */
export function monthLinks(cell: ReconciledCell, only: string | null): CellLink[] {
  const links = bookLinks(cell, only);
  return cell.account.of === "all" ? [{ label: "Where it comes from", to: providerPage(cell) }, ...links] : links;
}
