import { Form } from "@remix-run/react";
import { maxTermLength } from "../http/search-params.ts";
import { Button } from "./button.tsx";
import { Field } from "./field.tsx";

/**
 * Searches the list of its page; the term is `q` of the address.
 * @param props.keep parameters of the address that stay as they are
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
    <Form method="get" role="search" className="flex max-w-120 flex-wrap items-end gap-3">
      {Object.entries(keep).map(([name, value]) => (
        <input key={name} type="hidden" name={name} value={value} />
      ))}
      <SearchField name="q" label={label} term={term} />
      <Button variant="secondary">Search</Button>
    </Form>
  );
}

/** The field of a search, which "/" focuses (search-key.js). */
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
        // The key is shown as long as this is.
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
