import { Form, type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { searchAccounts } from "../admin/accounts.ts";
import { FoundAccounts } from "../admin/found-accounts.tsx";
import { requireInfrastructureAdmin } from "../admin/require-admin.ts";
import type { RouteHandle } from "../http/route-table.ts";
import { Button } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { ConsolePage } from "../ui/console-page.tsx";
import { Field } from "../ui/field.tsx";

export const handle: RouteHandle = { hydrate: false };

export const meta: MetaFunction = () => [{ title: "Users · Console · Gatehouse" }];

const maxTermLength = 320;

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { email, displayName } = await requireInfrastructureAdmin(context, request);
  const term = (new URL(request.url).searchParams.get("q") ?? "").replaceAll("\0", "").trim().slice(0, maxTermLength);
  const found = term === "" ? null : await searchAccounts(context, term);
  return { user: { email, displayName }, term, found };
}

export default function ConsoleUsersPage() {
  const { user, term, found } = useLoaderData<typeof loader>();
  return (
    <ConsolePage user={user} section="users" title="Console" lead="Accounts, and what protects them.">
      <Card title="Find an account">
        <Form method="get" role="search" className="flex max-w-120 flex-wrap items-end gap-3">
          <div className="min-w-48 flex-1">
            <Field
              id="q"
              name="q"
              type="search"
              label="Email, name or id"
              defaultValue={term}
              maxLength={maxTermLength}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              errorId="q-error"
              errors={undefined}
            />
          </div>
          <Button>Search</Button>
        </Form>
      </Card>
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
