import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { readRegistry } from "../../admin/apps.ts";
import { RegistrationList } from "../../admin/registry-pages.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { searchTerm } from "../../http/search-params.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { SearchForm } from "../../ui/search-form.tsx";

export const meta = pageTitle("Apps · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const term = searchTerm(request);
  const { searchParams } = new URL(request.url);
  const cursors = { appCursor: searchParams.get("cursor"), clientCursor: searchParams.get("clients") };
  return { ...(await readRegistry(context, { term, ...cursors })), term };
}

export default function ConsoleAppsPage() {
  const { apps, clients, term } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const isWhole =
    apps.nextCursor === null &&
    clients.nextCursor === null &&
    !new URLSearchParams(search).has("cursor") &&
    term === "";
  return (
    <Page title="Apps" lead="Internal and external apps, and OpenID clients.">
      <Card
        title="Registered apps"
        lead="These apps let people sign in with their accounts here. Each app can do only what its scopes allow."
        action={
          <ButtonLink href="/admin/apps/new" variant="primary">
            Register app
          </ButtonLink>
        }
      >
        {isWhole ? null : (
          <div className="mb-4">
            <SearchForm label="App name" term={term} />
          </div>
        )}
        {apps.records.length === 0 ? (
          <p className="text-muted">
            {term ? `No app matches “${term}”.` : "No apps yet. Register one before its first sign-in."}
          </p>
        ) : null}
        <RegistrationList
          pages="/admin/apps"
          registrations={apps.records.map((app) => ({ ...app, addresses: app.origins }))}
        />
        <PageNav label="Pages of apps" nextCursor={apps.nextCursor} keep={["q"]} />
      </Card>
      <Card
        id="openid-clients"
        title="OpenID clients"
        lead="Other apps that sign people in with OpenID Connect, such as Grafana."
        action={<ButtonLink href="/admin/openid-clients/new">Register OpenID client</ButtonLink>}
      >
        {clients.records.length === 0 ? (
          <p className="text-muted">{term ? `No client matches “${term}”.` : "No OpenID clients yet."}</p>
        ) : null}
        <RegistrationList
          pages="/admin/openid-clients"
          registrations={clients.records.map((client) => ({
            ...client,
            kind: client.isPublic ? "public" : "confidential",
            addresses: client.redirectUris,
          }))}
        />
        {clients.nextCursor === null ? null : (
          <ButtonLink href={`?${new URLSearchParams({ q: term, clients: clients.nextCursor })}#openid-clients`}>
            More clients
          </ButtonLink>
        )}
      </Card>
    </Page>
  );
}
