import { Form } from "@remix-run/react";
import { Button } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { Field } from "../ui/field.tsx";

/** The search that a list of the console begins with; its term is `q` of the address. */
export function SearchCard({ title, label, term }: { title: string; label: string; term: string }) {
  return (
    <Card title={title}>
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
        <Button>Search</Button>
      </Form>
    </Card>
  );
}

/** Characters; as long as an email may be. */
const maxTermLength = 320;

/** What a page of the console is searched for: `q` of its address, trimmed; empty where there is none. */
export function searchTerm({ url }: Request): string {
  return (new URL(url).searchParams.get("q") ?? "").replaceAll("\0", "").trim().slice(0, maxTermLength);
}
