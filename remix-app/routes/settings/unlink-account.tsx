import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { providerLabel } from "../../config/oauth-providers.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { listIdentities, unlinkIdentity } from "../../session/sign-in-methods.ts";
import { requireFreshUser } from "../../session/user.ts";
import { linkNotice } from "../../settings/linked-accounts.ts";
import { linkedAccountsPath } from "../../settings/paths.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Unlink an account");

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const identity = (await listIdentities(context, user)).find(({ id }) => id === params.identityId);
  if (!identity) throw problem("NOT_FOUND", { requestId: context.requestId });
  return {
    identity: { email: identity.email, label: providerLabel(identity.provider), unlinkable: identity.unlinkable },
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  await readForm(request, context);
  const identity = (await listIdentities(context, user)).find(({ id }) => id === params.identityId);
  if (!identity) throw problem("NOT_FOUND", { requestId: context.requestId });
  await unlinkIdentity(context, { user, id: identity.id });
  leaveNotice(context, linkNotice(identity.provider, "unlinked"));
  throw redirect(linkedAccountsPath);
}

export default function UnlinkAccountPage() {
  const { identity } = useLoaderData<typeof loader>();
  const { email, label, unlinkable } = identity;
  return (
    <Page title={`Unlink ${label}?`}>
      <Card title={email ?? `Your ${label} account`} lead={unlinkable ? describeUnlinking(label) : lastWay}>
        <AccountForm className="flex flex-wrap gap-3">
          {unlinkable ? <Button variant="danger">Unlink</Button> : null}
          <ButtonLink href={linkedAccountsPath}>{unlinkable ? "Cancel" : "Back"}</ButtonLink>
        </AccountForm>
      </Card>
    </Page>
  );
}

const describeUnlinking = (label: string) =>
  `You’ll no longer be able to sign in with it here. Your ${label} account itself isn’t affected, and you can link it again.`;

const lastWay = "This is your only way to sign in. Add a password, a passkey or another account first.";
