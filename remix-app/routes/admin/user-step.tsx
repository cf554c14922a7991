import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { deletionBlockers } from "../../account-data/delete-account.ts";
import {
  accountChangeSchema,
  applyAccountStep,
  describeAccountEffects,
  ownAccountMessage,
} from "../../admin/account-changes.ts";
import {
  type AccountStep,
  accountSteps,
  defaultDeletionDays,
  listAccountSteps,
  parseAccountStep,
} from "../../admin/account-steps.ts";
import { confirmAccount } from "../../admin/accounts.ts";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeField } from "../../admin/change-fields.tsx";
import { ChangeForm } from "../../admin/change-form.tsx";
import { requireSubject } from "../../admin/change-policy.ts";
import { type FailedChange, restoreChange } from "../../admin/failed-change.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data ? accountSteps[data.step].title : "Account"} · Console`);

async function requireStep({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const step = parseAccountStep(params.step);
  if (step === null) throw problem("NOT_FOUND", { requestId: context.requestId });
  const { account } = await requireSubject(context, { admin, subjectId: params.userId });
  return { admin, step, account, destroys: accountSteps[step].destroys ? confirmAccount(account) : null };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, account, destroys } = await requireStep(args);
  const { context } = args;
  const blockers = step === "delete" ? await deletionBlockers(context, account.id) : [];
  const lock =
    account.id === admin.id
      ? ownAccountMessage(step)
      : listAccountSteps(account).includes(step)
        ? null
        : "This change isn’t possible in the account’s current state.";
  return {
    id: account.id,
    name: account.email ?? account.id,
    step,
    destroys,
    lock,
    isOwnSignOut: account.id === admin.id && step === "sign-out",
    effects: describeAccountEffects(step, { account, blockers: blockers.map(({ name }) => name) }),
    restored: restoreChange(context, { request: args.request, admin }),
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, account, destroys } = await requireStep(args);
  return answerChange(args.context, {
    request: args.request,
    schema: accountChangeSchema(step),
    destroys,
    change: (change) => applyAccountStep(args.context, { admin, step, account, change }),
    to: () => `/admin/users/${account.id}?done=${step}`,
  });
}

export default function ConsoleAccountStepPage() {
  const { id, name, step, destroys, lock, isOwnSignOut, effects, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  const { title } = accountSteps[step];
  const base = `/admin/users/${id}`;
  return (
    <Page title={title} lead={name}>
      <Panel>
        {lock !== null && !failed ? (
          <div className="space-y-4">
            <Notice>{lock}</Notice>
            {isOwnSignOut ? (
              <ButtonLink href="/settings/security">Security</ButtonLink>
            ) : (
              <ButtonLink href={base}>Back to the account</ButtonLink>
            )}
          </div>
        ) : (
          <ChangeForm effects={effects} destroys={destroys} failed={failed} submit={title} cancelTo={base}>
            <DaysField step={step} failed={failed} />
          </ChangeForm>
        )}
      </Panel>
    </Page>
  );
}

function DaysField({ step, failed }: { step: AccountStep; failed: FailedChange | undefined }) {
  if (step === "ban") {
    return (
      <ChangeField
        name="days"
        label="Banned for (days)"
        hint="1 to 365. Leave it empty to ban the account until somebody lifts the ban."
        inputMode="numeric"
        failed={failed}
      />
    );
  }
  if (step !== "delete") return null;
  return (
    <ChangeField
      name="days"
      label="Waiting time (days)"
      hint="1 to 30."
      inputMode="numeric"
      value={defaultDeletionDays}
      failed={failed}
    />
  );
}
