import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { searchAccounts } from "../../admin/accounts.ts";
import { FoundAccounts } from "../../admin/found-accounts.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";

export const meta: MetaFunction = () => [{ title: "Users · Console · Gatehouse" }];

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const term = searchTerm(request);
  const found = term === "" ? null : await searchAccounts(context, term);
  return { term, found };
}

export default function ConsoleUsersPage() {
  const { term, found } = useLoaderData<typeof loader>();
  return (
    <ConsolePage title="Console" lead="Accounts, and what protects them.">
      <SearchCard title="Find an account" label="Email, name or id" term={term} />
      {found === null ? (
        <p className="text-muted">Search first: an account's page has its policy, factors, sessions and timeline.</p>
      ) : (
        <Card
          title={`Accounts that match “${term}”`}
          lead={found.more ? "These are the first 50. Search for more of the email to narrow them." : undefined}
        >
          <FoundAccounts accounts={found.accounts} />
        </Card>
      )}
    </ConsolePage>
  );
}
