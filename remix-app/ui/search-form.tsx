import { maxTermLength } from "../http/search-params.ts";
import { Button } from "./button.tsx";
import { Field } from "./field.tsx";

/**
 * Searches the page's list. The search term is the query parameter `q`.
 * @param props.keep query parameters to keep
 */
export function SearchForm({
  label,
  term,
  keep = {},
}: {
  label: string;
  term: string;
  keep?: Readonly<Record<string, string>>;
}) {
  return (
    <search>
      <form method="get" className="flex max-w-120 flex-wrap items-end gap-3">
        {Object.entries(keep).map(([name, value]) => (
          <input key={name} type="hidden" name={name} value={value} />
        ))}
        <SearchField name="q" label={label} term={term} />
        <Button variant="secondary">Search</Button>
      </form>
    </search>
  );
}

/** Renders a search field, which "/" focuses (search-key.js). */
export function SearchField({ name, label, term }: { name: string; label: string; term: string }) {
  return (
    <div className="min-w-48 flex-1">
      <Field
        name={name}
        type="search"
        label={label}
        defaultValue={term}
        maxLength={maxTermLength}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        aria-keyshortcuts="/"
        // CSS shows the key hint only with `:placeholder-shown`, which never matches an empty placeholder.
        placeholder=" "
        trailing={
          <span aria-hidden="true" className="search-key">
            /
          </span>
        }
      />
    </div>
  );
}
