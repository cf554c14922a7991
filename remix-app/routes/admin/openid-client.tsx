import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { requireOpenidClient } from "../../admin/openid-clients.ts";
import { RegistrationCard, SecretsCard } from "../../admin/registry-pages.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { endpointsOf } from "../../openid/discovery.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { CopyableText } from "../../ui/code-block.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

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

export default function ConsoleOpenidClientPage() {
  const { client, addresses, done } = useLoaderData<typeof loader>();
  const base = `/admin/openid-clients/${client.name}`;
  return (
    <Page title={client.displayName} lead={`${client.name} · ${client.isPublic ? "public" : "confidential"}`}>
      {done ? <Notice tone="good">Changes saved.</Notice> : null}
      {client.enabled ? null : <Notice tone="warn">This client is disabled: people can’t sign in to it.</Notice>}
      <RegistrationCard
        base={base}
        enabled={client.enabled}
        facts={[
          { label: "Redirect URIs", values: client.redirectUris, none: "None: device sign-in only" },
          { label: "Post-logout redirect URIs", values: client.postLogoutRedirectUris, none: "None" },
          { label: "Logout URL", values: client.logoutUrl === null ? [] : [client.logoutUrl], none: "None" },
          { label: "Scopes", values: client.scopes, none: "None" },
          {
            label: "PKCE",
            values: [],
            none: client.requiresPkce ? "Required" : "Not required: accepts requests without a code challenge",
          },
          {
            label: "ID token",
            values: [],
            none: client.claimsInIdToken ? "Has name, email and groups" : "Identifies the account only",
          },
          {
            label: "Groups",
            values: client.groupsWorkspaceId === null ? [] : [`Role in workspace ${client.groupsWorkspaceId}`],
            none: "None",
          },
          { label: "Device sign-in", values: [], none: client.allowsDeviceGrant ? "Allowed" : "Not allowed" },
        ]}
      />
      <Card title="Settings for the developer" lead="Most libraries need the issuer, the client ID and the secret.">
        <div className="space-y-4">
          {addresses.map(([label, text]) => (
            <CopyableText key={label} label={label} text={text} />
          ))}
        </div>
      </Card>
      {client.isPublic ? null : <SecretsCard what="client" base={base} secrets={client.secrets} />}
    </Page>
  );
}
