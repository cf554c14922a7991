import { useLocation } from "@remix-run/react";
import { searchWith } from "./range.ts";

/** Renders links to the same page that change one query parameter, so that the choice is in the URL. */
export function Choices({
  label,
  name,
  options,
  chosen,
}: {
  label: string;
  name: string;
  options: readonly { value: string; label: string }[];
  chosen: string;
}) {
  const { search } = useLocation();
  return (
    <nav aria-label={label} className="flex flex-wrap items-center gap-2">
      <span aria-hidden="true" className="text-muted">
        {label}
      </span>
      {options.map(({ value, label: text }) => (
        <a
          key={value}
          href={searchWith(search, { [name]: value })}
          aria-current={value === chosen ? "true" : undefined}
          className="choice"
        >
          {text}
        </a>
      ))}
    </nav>
  );
}
