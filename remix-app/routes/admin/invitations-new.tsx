import { randomUUID } from "node:crypto";
import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { inviteAccount, newInvitationSchema } from "../../admin/account-invitations.ts";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeField } from "../../admin/change-fields.tsx";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Invite a person · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const isMailed = Boolean(context.env.SMTP_URL);
  return { isMailed, restored: restoreChange(context, { request, admin }) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const id = randomUUID();
  return answerChange(context, {
    request,
    schema: newInvitationSchema,
    change: (change) => inviteAccount(context, { ...change, admin, id }),
    to: () => `/admin/invitations?${new URLSearchParams({ invited: id })}`,
  });
}

export default function ConsoleNewInvitationPage() {
  const { isMailed, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  return (
    <Page title="Invite a person">
      <Panel>
        <ChangeForm
          effects={[
            isMailed
              ? "We’ll email them a link to create an account."
              : "No mail server is configured, so you get a link to send them.",
            "The invitation lasts 14 days and only works for this email address, which they confirm.",
            "It gives them no workspace and no role. You can revoke it at any time.",
          ]}
          failed={failed}
          submit="Invite"
          cancelTo="/admin/invitations"
        >
          <ChangeField
            name="email"
            label="Email"
            type="email"
            autoCapitalize="none"
            spellCheck={false}
            failed={failed}
          />
        </ChangeForm>
      </Panel>
    </Page>
  );
}
