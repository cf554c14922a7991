import { Card } from "../ui/card.tsx";
import { SearchForm } from "../ui/search-form.tsx";

/** The search that a list of the console begins with. */
export function SearchCard({ title, label, term }: { title: string; label: string; term: string }) {
  return (
    <Card title={title}>
      <SearchForm label={label} term={term} />
    </Card>
  );
}
