import { useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { requireOpenidClient } from "../../admin/openid-clients.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { endpointsOf } from "../../openid/discovery.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Copyable } from "../../ui/code-block.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.client.displayName ?? "OpenID client"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const client = await requireOpenidClient(context, params.name);
  const issuer = context.env.BASE_URL;
  const { authorization_endpoint, token_endpoint, userinfo_endpoint } = endpointsOf(issuer);
  const addresses = [
    ["Client ID", client.name],
    ["Issuer", issuer],
    ["Discovery document", `${issuer}/.well-known/openid-configuration`],
    ["Authorization endpoint", authorization_endpoint],
    ["Token endpoint", token_endpoint],
    ["Userinfo endpoint", userinfo_endpoint],
  ] as const;
  return { client, addresses, done: new URL(request.url).searchParams.has("done") };
}

function Facts({ label, values, none }: { label: string; values: readonly string[]; none: string }) {
  return (
    <div className="min-w-0">
      <dt className="text-muted text-small">{label}</dt>
      {values.length === 0 ? <dd>{none}</dd> : null}
      {values.map((value) => (
        <dd key={value} className="break-all font-mono">
          {value}
        </dd>
      ))}
    </div>
  );
}

export default function ConsoleOpenidClientPage() {
  const { client, addresses, done } = useLoaderData<typeof loader>();
  const base = `/admin/openid-clients/${client.name}`;
  return (
    <ConsolePage title={client.displayName} lead={`${client.name} · ${client.isPublic ? "public" : "confidential"}`}>
      {done ? <Notice tone="good">Changes saved.</Notice> : null}
      {client.enabled ? null : <Notice tone="warn">This client is disabled: people can’t sign in to it.</Notice>}
      <Card
        title="Registration"
        lead="Addresses and scopes."
        action={
          <div className="flex flex-wrap gap-3">
            <ButtonLink href={`${base}/edit`}>Edit</ButtonLink>
            <ButtonLink href={`${base}/${client.enabled ? "disable" : "enable"}`} variant="danger">
              {client.enabled ? "Disable" : "Enable"}
            </ButtonLink>
          </div>
        }
      >
        <dl className="grid grid-cols-1 gap-x-6 gap-y-3 sm:grid-cols-2">
          <Facts label="Redirect URIs" values={client.redirectUris} none="None: sign-in on devices only" />
          <Facts label="Post-logout redirect URIs" values={client.postLogoutRedirectUris} none="None" />
          <Facts label="Logout URL" values={client.logoutUrl === null ? [] : [client.logoutUrl]} none="None" />
          <Facts label="Scopes" values={client.scopes.length === 0 ? [] : [client.scopes.join(" ")]} none="None" />
          <Facts label="Sign-in on devices" values={[]} none={client.allowsDeviceGrant ? "Allowed" : "Not allowed"} />
        </dl>
      </Card>
      <Card title="Settings for the developer" lead="Most libraries need the issuer, the client ID and the secret.">
        <div className="space-y-4">
          {addresses.map(([label, text]) => (
            <Copyable key={label} label={label} text={text} />
          ))}
        </div>
      </Card>
      {client.isPublic ? null : (
        <Card
          title="Secrets"
          lead="The client authenticates with a secret. After a rotation, the old one can keep working for a while."
          action={
            <ButtonLink href={`${base}/rotate`} variant="danger">
              Rotate secret
            </ButtonLink>
          }
        >
          <ul className="divide-y divide-line">
            {client.secrets.map(({ createdAt, expiresAt }) => (
              <li key={createdAt} className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 py-2.5">
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
      )}
    </ConsolePage>
  );
}
