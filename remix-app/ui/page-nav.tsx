import { useLocation } from "@remix-run/react";
import { keptSearch } from "../http/search-params.ts";
import { buttonClass } from "./button.tsx";
import { Link } from "./link.tsx";

export interface PageNavProps {
  /** What is paged, for assistive technology. */
  label: string;
  nextCursor: string | null;
  /** The search parameter that holds the cursor. */
  param?: string;
  /** Other search parameters that the page depends on. */
  keep?: readonly string[];
  /** The id of the card that holds the list, where the page holds more. */
  card?: string;
}

/** Links to the first and the next page of a list; nothing where all of it is on one page. */
export function PageNav({ label, nextCursor, param = "cursor", keep = [], card }: PageNavProps) {
  const { search } = useLocation();
  const first = !new URLSearchParams(search).has(param);
  if (first && nextCursor === null) return null;
  const to = (add: Record<string, string>) => `${keptSearch(search, { keep, add })}${card ? `#${card}` : ""}`;
  return (
    <nav aria-label={label} className="mt-4 flex flex-wrap gap-3">
      {first ? null : (
        <Link className={buttonClass("secondary")} to={to({})}>
          First page
        </Link>
      )}
      {nextCursor === null ? null : (
        <Link className={buttonClass("secondary")} to={to({ [param]: nextCursor })}>
          Next page
        </Link>
      )}
    </nav>
  );
}
