import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { requireApp } from "../../admin/apps.ts";
import { RegistrationCard, SecretsCard } from "../../admin/registry-pages.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.app.displayName ?? "App"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const app = await requireApp(context, params.name, searchParams.get("cursor"));
  return { app, done: searchParams.has("done") };
}

export default function ConsoleAppPage() {
  const { app, done } = useLoaderData<typeof loader>();
  const base = `/admin/apps/${app.name}`;
  return (
    <Page title={app.displayName} lead={`${app.name} · ${app.kind}`}>
      {done ? <Notice tone="good">Changes saved.</Notice> : null}
      {app.enabled ? null : <Notice tone="warn">This app is disabled, so no one can use it.</Notice>}
      <RegistrationCard
        base={base}
        enabled={app.enabled}
        facts={[
          { label: "Origins", values: app.origins, none: "None, so it can’t sign anyone in" },
          { label: "Scopes", values: app.scopes, none: "None" },
          { label: "Logout URL", values: app.logoutUrl === null ? [] : [app.logoutUrl], none: "None" },
          { label: "Resource URL", values: app.resourceUrl === null ? [] : [app.resourceUrl], none: "None" },
        ]}
      />
      <SecretsCard what="app" base={base} secrets={app.secrets} />
      {app.kind === "external" ? (
        <Card
          id="workspaces"
          title="Linked workspaces"
          lead="Workspaces where the app can use the gateway on behalf of members."
          action={<ButtonLink href={`${base}/link`}>Link workspace</ButtonLink>}
        >
          {app.workspaces.length === 0 ? <p className="text-muted">None yet.</p> : null}
          <ul className="divide-y divide-line">
            {app.workspaces.map(({ id, name }) => (
              <li
                key={id}
                className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 py-2.5 first:pt-0 last:pb-0"
              >
                <span className="min-w-0">
                  <bdi>{name}</bdi> <code className="break-all font-mono text-muted text-small">{id}</code>
                </span>
                <ButtonLink
                  href={`${base}/unlink?${new URLSearchParams({ workspace: id })}`}
                  aria-label={`Unlink ${name}`}
                >
                  Unlink
                </ButtonLink>
              </li>
            ))}
          </ul>
          <PageNav label="Pages of workspaces" nextCursor={app.nextCursor} card="workspaces" />
        </Card>
      ) : null}
    </Page>
  );
}
