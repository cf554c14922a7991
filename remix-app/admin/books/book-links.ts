import type { ReconciledCell } from "../../studio/costs/reconciliation.ts";
import { recordLinks } from "../../studio/costs/reconciliation-links.ts";
import type { CellLink } from "../../studio/costs/reconciliation-table.tsx";

const base = "/admin/books";

/** Returns the URL of the page that explains a provider's month. */
export function providerPage({ month, provider }: { month: string; provider: string }): string {
  return `${base}/${month}/${encodeURIComponent(provider)}`;
}

/**
 * Returns the links from a line of the platform's reconciliation to its records and to the action that its status
 * requires.
 * @param only the id of the line's single account, or null if the line has several or none
 */
export function bookLinks(cell: ReconciledCell, only: string | null): CellLink[] {
  return recordLinks(cell, { base, only, importTo: `${base}/import`, ofCosts: { month: cell.month } });
}

/**
 * Returns the links of {@link bookLinks}. If the line covers all accounts, a link to the page of the provider's month
 * comes first.
 */
export function monthLinks(cell: ReconciledCell, only: string | null): CellLink[] {
  const links = bookLinks(cell, only);
  return cell.account.of === "all" ? [{ label: "Details", to: providerPage(cell) }, ...links] : links;
}
