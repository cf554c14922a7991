import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { ServiceAccountTable } from "../../service-accounts/account-cards.tsx";
import { requireServiceAccountManager } from "../../service-accounts/owner.ts";
import { listServiceAccounts } from "../../service-accounts/service-accounts.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle<typeof loader>((data) => `Service accounts · ${data?.owner.label ?? ""}`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { owner } = await requireServiceAccountManager(context, { request, params });
  const cursor = new URL(request.url).searchParams.get("cursor");
  return { owner, ...(await listServiceAccounts(context, { workspaceId: owner.workspaceId, cursor })) };
}

export default function ServiceAccountsPage() {
  const { owner, accounts, nextCursor } = useLoaderData<typeof loader>();
  return (
    <Page
      title="Service accounts"
      lead="Programs with an identity of their own. They use the API with scopes, and never sign in to pages."
      actions={
        <ButtonLink href={`${owner.path}/new`} variant="primary">
          New service account
        </ButtonLink>
      }
    >
      <Panel>
        <ServiceAccountTable accounts={accounts} path={owner.path} />
        <PageNav label="Pages of service accounts" nextCursor={nextCursor} />
      </Panel>
    </Page>
  );
}
