import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { listApps } from "../../admin/apps.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Dotted } from "../../ui/facts.tsx";

export const meta: MetaFunction = () => [{ title: "Apps · Console · Gatehouse" }];

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  return { apps: await listApps(context) };
}

export default function ConsoleAppsPage() {
  const { apps } = useLoaderData<typeof loader>();
  return (
    <ConsolePage title="Apps" lead="Satellites of ours, and apps of others.">
      <Card
        title="Registered"
        lead="An app signs people in here and acts within its scopes."
        action={
          <ButtonLink href="/admin/apps/new" variant="primary">
            Register an app
          </ButtonLink>
        }
      >
        {apps.length === 0 ? <p className="text-muted">None yet. Register one before its first sign-in.</p> : null}
        <ul className="divide-y divide-line">
          {apps.map(({ name, displayName, kind, enabled, origins, scopes }) => (
            <li key={name} className="space-y-0.5 py-3 first:pt-0 last:pb-0">
              <p>
                <a href={`/admin/apps/${name}`} className="link font-medium">
                  {displayName}
                </a>{" "}
                <span className="text-muted">
                  {name} · {kind}
                </span>
                {enabled ? null : <span className="text-bad"> · disabled</span>}
              </p>
              <p className="wrap-anywhere text-muted text-small">
                <Dotted facts={[...origins, scopes.join(" ")]} />
              </p>
            </li>
          ))}
        </ul>
      </Card>
    </ConsolePage>
  );
}
