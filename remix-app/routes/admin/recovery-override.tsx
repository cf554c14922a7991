import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { reasonedChangeSchema } from "../../admin/confirmation.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import {
  findRecovery,
  getRecoveryRestriction,
  requireRecoveryEmail,
  revokeOverride,
  sendRecovery,
} from "../../admin/recovery.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { formatDateTime } from "../../http/date-text.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

const steps = { send: "Send recovery email", revoke: "Revoke override" } as const;

export const meta = pageTitle<typeof loader>((data) => `${data ? steps[data.step] : "Override"} · Console`);

/** Returns the override in the URL if it belongs to the email in the URL. @throws Response 404 if it doesn't */
async function requireOverride({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const email = requireRecoveryEmail(context, request);
  const { overrides } = await findRecovery(context, email);
  const override = overrides.find(({ id }) => id === params.overrideId);
  const { step } = params;
  if (!override || (step !== "send" && step !== "revoke")) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { admin, email, override, step } as const;
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, email, override, step } = await requireOverride(args);
  const restored = restoreChange(args.context, { request: args.request, admin });
  return { email, override, step, lock: getRecoveryRestriction(admin, email), restored };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, email, override, step } = await requireOverride(args);
  const act = step === "send" ? sendRecovery : revokeOverride;
  return answerChange(args.context, {
    request: args.request,
    schema: reasonedChangeSchema,
    change: ({ reason }) => act(args.context, { admin, overrideId: override.id, reason }),
    to: () => `/admin/recovery?${new URLSearchParams({ email, done: step })}`,
  });
}

export default function ConsoleOverridePage() {
  const { email, override, step, lock, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  const made = `The override was created on ${formatDateTime(override.createdAt)} by ${override.createdBy ?? "a former admin"}. Reason: ${override.reason}`;
  const effects =
    step === "send"
      ? [
          `${email} gets an email with a link and a code. Either one signs them in once and expires after 15 minutes. Admins can’t see the link or the code.`,
          "Any earlier recovery email stops working.",
          "Using the new email lifts a ban, confirms the address and signs the account out of every device and app.",
          made,
        ]
      : [
          `Once you confirm, blocks on ${email} apply again.`,
          "Recovery emails sent with this override stop working. Existing sessions stay signed in.",
          made,
        ];
  return (
    <Page title={steps[step]} lead={email}>
      <Panel>
        {lock ? (
          <Notice>{lock}</Notice>
        ) : (
          <ChangeForm
            effects={effects}
            failed={failed}
            submit={steps[step]}
            cancelTo={`/admin/recovery?${new URLSearchParams({ email })}`}
          />
        )}
      </Panel>
    </Page>
  );
}
