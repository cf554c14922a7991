import { Card } from "../ui/card.tsx";
import { SearchForm } from "../ui/search-form.tsx";

/** Renders the search above a list in the console. */
export function SearchCard({ title, label, term }: { title: string; label: string; term: string }) {
  return (
    <Card title={title}>
      <SearchForm label={label} term={term} />
    </Card>
  );
}
