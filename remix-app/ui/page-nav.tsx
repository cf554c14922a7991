import { useLocation } from "@remix-run/react";
import { buildSearch } from "../http/search-params.ts";
import { ButtonLink } from "./button.tsx";

export interface PageNavProps {
  /** The name of the list for assistive technology. */
  label: string;
  nextCursor: string | null;
  /** The query parameter of the cursor. */
  param?: string;
  /** Other query parameters that the page depends on. */
  keep?: readonly string[];
  /** The id of the list's card, if the page has several. */
  card?: string;
}

/** Links to the first and the next page of a list. Renders nothing if the list has only one page. */
export function PageNav({ label, nextCursor, param = "cursor", keep = [], card }: PageNavProps) {
  const { search } = useLocation();
  const first = !new URLSearchParams(search).has(param);
  if (first && nextCursor === null) return null;
  const to = (add: Record<string, string>) => `${buildSearch(search, { keep, add })}${card ? `#${card}` : ""}`;
  return (
    <>
      <p className="mt-4 hidden text-muted print:block">This is one page of a longer list.</p>
      <nav aria-label={label} className="mt-4 flex flex-wrap gap-3">
        {first ? null : <ButtonLink href={to({})}>First page</ButtonLink>}
        {nextCursor === null ? null : <ButtonLink href={to({ [param]: nextCursor })}>Next page</ButtonLink>}
      </nav>
    </>
  );
}
