import { useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { requireApp } from "../../admin/apps.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.app.displayName ?? "App"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const app = await requireApp(context, params.name, searchParams.get("cursor"));
  return { app, done: searchParams.has("done") };
}

const row = "flex flex-wrap items-center justify-between gap-x-6 gap-y-2 py-2.5 first:pt-0 last:pb-0";

export default function ConsoleAppPage() {
  const { app, done } = useLoaderData<typeof loader>();
  const base = `/admin/apps/${app.name}`;
  return (
    <ConsolePage title={app.displayName} lead={`${app.name} · ${app.kind}`}>
      {done ? <Notice tone="good">Changes saved.</Notice> : null}
      {app.enabled ? null : <Notice tone="warn">This app is disabled, so no one can use it.</Notice>}
      <Card
        title="Registration"
        lead="Origins and scopes."
        action={
          <div className="flex flex-wrap gap-3">
            <ButtonLink href={`${base}/edit`}>Edit</ButtonLink>
            <ButtonLink
              href={`${base}/${app.enabled ? "disable" : "enable"}`}
              variant={app.enabled ? "danger" : "secondary"}
            >
              {app.enabled ? "Disable" : "Enable"}
            </ButtonLink>
          </div>
        }
      >
        <dl className="grid grid-cols-1 gap-x-6 gap-y-3 sm:grid-cols-2">
          <div className="min-w-0">
            <dt className="text-muted text-small">Origins</dt>
            {app.origins.length === 0 ? <dd>None, so it can’t sign anyone in</dd> : null}
            {app.origins.map((origin) => (
              <dd key={origin} className="break-all font-mono">
                {origin}
              </dd>
            ))}
          </div>
          <div className="min-w-0">
            <dt className="text-muted text-small">Scopes</dt>
            <dd className="font-mono">{app.scopes.join(" ") || "None"}</dd>
          </div>
          <div className="min-w-0">
            <dt className="text-muted text-small">Logout URL</dt>
            <dd className="break-all font-mono">{app.logoutUrl ?? "None"}</dd>
          </div>
        </dl>
      </Card>
      <Card
        title="Secrets"
        lead="The app authenticates with a secret. After a rotation, the old one can keep working for a while."
        action={
          <ButtonLink href={`${base}/rotate`} variant="danger">
            Rotate secret
          </ButtonLink>
        }
      >
        <ul className="divide-y divide-line">
          {app.secrets.map(({ createdAt, expiresAt }) => (
            <li key={createdAt} className={row}>
              <span>
                Created <RelativeTime at={createdAt} />
              </span>
              <span className="text-muted">
                {expiresAt ? (
                  <>
                    ends <RelativeTime at={expiresAt} />
                  </>
                ) : (
                  "current"
                )}
              </span>
            </li>
          ))}
        </ul>
      </Card>
      {app.kind === "external" ? (
        <Card
          id="workspaces"
          title="Linked workspaces"
          lead="Workspaces where the app can use the gateway on behalf of members."
          action={<ButtonLink href={`${base}/link`}>Link a workspace</ButtonLink>}
        >
          {app.workspaces.length === 0 ? <p className="text-muted">None yet.</p> : null}
          <ul className="divide-y divide-line">
            {app.workspaces.map(({ id, name }) => (
              <li key={id} className={row}>
                <span className="min-w-0">
                  <bdi>{name}</bdi> <code className="break-all font-mono text-muted text-small">{id}</code>
                </span>
                <ButtonLink
                  href={`${base}/unlink?${new URLSearchParams({ workspace: id })}`}
                  aria-label={`Unlink ${name}`}
                  variant="danger"
                >
                  Unlink
                </ButtonLink>
              </li>
            ))}
          </ul>
          <PageNav label="Pages of workspaces" nextCursor={app.nextCursor} card="workspaces" />
        </Card>
      ) : null}
    </ConsolePage>
  );
}
