import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { confirmAccount, ownSignOutMessage, signAccountOut } from "../../admin/accounts.ts";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { requireSubject } from "../../admin/change-policy.ts";
import { reasonedChangeSchema } from "../../admin/confirmation.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import { formatQuantity } from "../../admin/labels.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Sign out everywhere · Console");

async function requireTarget({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { account } = await requireSubject(context, { admin, subjectId: params.userId });
  return { admin, account };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, account } = await requireTarget(args);
  return {
    id: account.id,
    destroys: confirmAccount(account),
    sessions: account.sessionCount,
    oneself: account.id === admin.id,
    restored: restoreChange(args.context, { request: args.request, admin }),
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, account } = await requireTarget(args);
  return answerChange(args.context, {
    request: args.request,
    schema: reasonedChangeSchema,
    destroys: confirmAccount(account),
    change: ({ reason }) => signAccountOut(args.context, { admin, subject: account.id, reason }),
    to: () => `/admin/users/${account.id}?done=sign-out`,
  });
}

export default function ConsoleSignOutPage() {
  const { id, destroys, sessions, oneself, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const base = `/admin/users/${id}`;
  return (
    <Page title="Sign out everywhere" lead={destroys.text}>
      <Panel>
        {oneself ? (
          <div className="space-y-4">
            <Notice>{ownSignOutMessage}</Notice>
            <ButtonLink href="/settings/security">Security</ButtonLink>
          </div>
        ) : (
          <ChangeForm
            effects={[
              `${destroys.text} is signed out of every browser and device (${formatQuantity(sessions, "session")} now) immediately.`,
              "App sessions, gateway tokens and sign-ins in progress also end.",
              "Workspace API keys keep working. The person can sign in again as before.",
              "If any session ends, the owner gets an email.",
            ]}
            destroys={destroys}
            failed={failed ?? restored}
            submit="Sign out everywhere"
            cancelTo={base}
          />
        )}
      </Panel>
    </Page>
  );
}
