import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { readAccounts } from "../../admin/accounts.ts";
import { FoundAccounts } from "../../admin/found-accounts.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Accounts · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const term = searchTerm(request);
  const cursor = new URL(request.url).searchParams.get("cursor");
  return { term, ...(await readAccounts(context, { term, cursor })) };
}

export default function ConsoleUsersPage() {
  const { term, accounts, more, nextCursor } = useLoaderData<typeof loader>();
  return (
    <Page title="Accounts" lead="Everyone with an account.">
      <SearchCard title="Find an account" label="Email, name or ID" term={term} />
      <Card
        title={term ? `Accounts that match “${term}”` : "All accounts"}
        lead={
          term
            ? more && "The first 50. Enter more of the email to narrow the list."
            : "Newest first. Open an account to see its MFA policy, authenticators, sessions and timeline."
        }
      >
        <FoundAccounts accounts={accounts} />
        <PageNav label="Pages of accounts" nextCursor={nextCursor} />
      </Card>
    </Page>
  );
}
