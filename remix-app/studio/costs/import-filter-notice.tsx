import { Link, useLocation } from "@remix-run/react";
import { searchWith } from "../range.ts";
import type { ImportFilter } from "./provider-imports.ts";

/** To what a list of imports is narrowed, and the way back to all of them. */
export function ImportFilterNotice({ filter, of }: { filter: ImportFilter & { month?: string }; of: string }) {
  const { search } = useLocation();
  const { provider, accountId, month } = filter;
  const parts = [
    provider ?? [],
    accountId === undefined ? [] : accountId === null ? "without an account" : `account ${accountId}`,
    month ? `counted in ${month}` : [],
  ].flat();
  if (parts.length === 0) return null;
  return (
    <p className="flex flex-wrap gap-x-3 gap-y-1">
      <span className="min-w-0 break-words">
        Only {of} of {parts.join(", ")}.
      </span>
      <Link className="link" to={searchWith(search, { provider: "", account: "", noAccount: "", month: "" })}>
        Show all
      </Link>
    </p>
  );
}
