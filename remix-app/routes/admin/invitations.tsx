import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { AccountInvitationTable } from "../../admin/account-invitation-table.tsx";
import { listAccountInvitations, requireAccountInvitation } from "../../admin/account-invitations.ts";
import { accountInvitationLink } from "../../admin/account-mail.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Invitations · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const [list, invited] = await Promise.all([
    listAccountInvitations(context, { cursor: searchParams.get("cursor") }),
    searchParams.has("invited") ? requireAccountInvitation(context, searchParams.get("invited")) : null,
  ]);
  const { env, origin } = context;
  return {
    ...list,
    isRevoked: searchParams.has("revoked"),
    invited: invited && {
      email: invited.email,
      link: accountInvitationLink(origin, invited.id),
      isMailed: Boolean(env.SMTP_URL),
    },
  };
}

export default function ConsoleInvitationsPage() {
  const { invitations, nextCursor, isRevoked, invited } = useLoaderData<typeof loader>();
  return (
    <Page title="Invitations" lead="People who may create an account, even while sign-up is by invitation.">
      {isRevoked ? <Notice tone="good">The invitation is revoked.</Notice> : null}
      {invited ? (
        <Notice tone="good">
          <p>
            <EmailAddress>{invited.email}</EmailAddress> is invited.{" "}
            {invited.isMailed
              ? "We emailed them this link:"
              : "No email was sent, because no mail server is configured. Send them this link:"}
          </p>
          <p className="break-all font-mono text-small">{invited.link}</p>
        </Notice>
      ) : null}
      <Card
        title="Invitations"
        lead="Newest first. An invitation lasts 14 days and only works for its email address."
        action={
          <ButtonLink href="/admin/invitations/new" variant="primary">
            Invite
          </ButtonLink>
        }
      >
        <AccountInvitationTable invitations={invitations} />
        <PageNav label="Pages of invitations" nextCursor={nextCursor} />
      </Card>
    </Page>
  );
}
