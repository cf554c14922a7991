/** A book of costs and invoices, of a workspace or of the platform, and where its pages are. Loaders return it. */
export interface Book {
  isPlatform: boolean;
  /** Ends the titles of the book's lists: the workspace's name, or the section of the console. */
  name: string;
  /** The path of the reconciliation. Like those of the lists, it leads to the list's file if `.csv` is appended. */
  reconciliation: string;
  costs: string;
  invoices: string;
  /** The path of the form that imports a cost file. */
  costImport: string;
  /** The path that contains the receipts of imported cost files. */
  receipts: string;
}

const base = "/admin/books";

/** The path that requests an automatic import into the platform's book. */
export const automaticImports = `${base}/automatic-imports`;

export const platformBook: Book = {
  isPlatform: true,
  name: "Books · Console",
  reconciliation: base,
  costs: `${base}/costs`,
  invoices: `${base}/invoices`,
  costImport: `${base}/import`,
  receipts: `${base}/imports`,
};

export function workspaceBook({ id, name }: { id: string; name: string }): Book {
  const studio = `/workspaces/${id}/ai`;
  return {
    isPlatform: false,
    name,
    reconciliation: `${studio}/reconciliation`,
    costs: `${studio}/costs`,
    invoices: `${studio}/invoices`,
    costImport: `${studio}/costs/import`,
    receipts: `${studio}/costs/imports`,
  };
}

/** Returns the path of a book's costs from the first to the last day. The platform's costs are listed by month. */
export function costsPath(
  { isPlatform, costs }: Book,
  { first, last, ...filter }: { first: string; last: string } & Record<string, string>,
): string {
  const days: Record<string, string> = isPlatform ? { month: last.slice(0, 7) } : { from: first, to: last };
  return `${costs}?${new URLSearchParams({ ...days, ...filter })}`;
}

/** Returns the path of the page that explains a provider's month in the platform's book. */
export function providerPage({ month, provider }: { month: string; provider: string }): string {
  return `${base}/${month}/${encodeURIComponent(provider)}`;
}

/** Returns the path of the likely causes on {@link providerPage}. */
export function causesPath(month: { month: string; provider: string }): string {
  return `${providerPage(month)}#causes`;
}

/** Names the costs that a book's invoices are compared with. */
export function comparedCosts({ isPlatform }: Book): string {
  return isPlatform ? "what all workspaces’ runs cost and what was imported" : "what was metered and imported";
}
