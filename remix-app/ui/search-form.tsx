import { Form } from "@remix-run/react";
import { maxTermLength } from "../http/search-params.ts";
import { Button } from "./button.tsx";
import { Field } from "./field.tsx";

/** Searches the list of its page; the term is `q` of the address. */
export function SearchForm({ label, term }: { label: string; term: string }) {
  return (
    <Form method="get" role="search" className="flex max-w-120 flex-wrap items-end gap-3">
      <div className="min-w-48 flex-1">
        <Field
          name="q"
          type="search"
          label={label}
          defaultValue={term}
          maxLength={maxTermLength}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
        />
      </div>
      <Button variant="secondary">Search</Button>
    </Form>
  );
}
