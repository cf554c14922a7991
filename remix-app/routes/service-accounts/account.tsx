import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { AccountCard, CredentialsCard } from "../../service-accounts/account-cards.tsx";
import { requireServiceAccountManager } from "../../service-accounts/owner.ts";
import { requireServiceAccount } from "../../service-accounts/service-accounts.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) =>
  data ? `${data.account.name} · ${data.owner.label}` : "Service account",
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { owner } = await requireServiceAccountManager(context, { request, params });
  const { workspaceId } = owner;
  const account = await requireServiceAccount(context, { workspaceId, id: params.accountId });
  return { owner, account, done: new URL(request.url).searchParams.has("done") };
}

/** Says why a service account can't get tokens. */
const inactive = {
  disabled: "This service account is disabled: it gets no tokens.",
  expired: "This service account has expired: it gets no tokens. Edit it to choose a later day.",
  revoked: "This service account is revoked. Create a new one to replace it.",
} as const;

export default function ServiceAccountPage() {
  const { owner, account, done } = useLoaderData<typeof loader>();
  const lead = owner.workspaceId === null ? "Service account of the platform" : "Service account of this workspace";
  return (
    <Page title={account.name} lead={lead}>
      {done ? <Notice tone="good">Changes saved.</Notice> : null}
      {account.state === "active" ? null : <Notice tone="warn">{inactive[account.state]}</Notice>}
      <AccountCard account={account} path={owner.path} />
      <CredentialsCard account={account} path={owner.path} />
    </Page>
  );
}
