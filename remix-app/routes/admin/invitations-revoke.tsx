import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { requireAccountInvitation, revokeAccountInvitation } from "../../admin/account-invitations.ts";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { reasonedChangeSchema } from "../../admin/confirmation.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Revoke invitation · Console");

const list = "/admin/invitations";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { email, state } = await requireAccountInvitation(context, params.invitationId);
  return { email, isOpen: state === "open", restored: restoreChange(context, { request, admin }) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { id } = await requireAccountInvitation(context, params.invitationId);
  return answerChange(context, {
    request,
    schema: reasonedChangeSchema,
    change: ({ reason }) => revokeAccountInvitation(context, { admin, invitation: id, reason }),
    to: () => `${list}?revoked`,
  });
}

export default function ConsoleRevokeInvitationPage() {
  const { email, isOpen, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  return (
    <Page title="Revoke invitation" lead={email}>
      <Panel>
        {isOpen || failed ? (
          <ChangeForm
            effects={[
              `Once you confirm, ${email} can’t use this invitation any more.`,
              "If sign-up is open, or a workspace has invited them, they can still create an account.",
              "They aren’t notified.",
            ]}
            failed={failed ?? restored}
            submit="Revoke invitation"
            cancelTo={list}
          />
        ) : (
          <div className="space-y-4">
            <Notice>This invitation is no longer open.</Notice>
            <ButtonLink href={list}>Back to invitations</ButtonLink>
          </div>
        )}
      </Panel>
    </Page>
  );
}
