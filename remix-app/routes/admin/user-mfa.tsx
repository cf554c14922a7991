import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { confirmAccount } from "../../admin/accounts.ts";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import {
  applyPolicyStep,
  describePolicyEffects,
  policyChangeSchema,
  requireSubject,
} from "../../admin/change-policy.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import { listAvailableSteps, mfaPolicyChanges, type PolicyStep } from "../../admin/policy-step.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data ? mfaPolicyChanges[data.step].title : "MFA"} · Console`);

async function requirePolicyStep({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const step = params.step as PolicyStep;
  if (!Object.hasOwn(mfaPolicyChanges, step ?? "")) throw problem("NOT_FOUND", { requestId: context.requestId });
  const subject = await requireSubject(context, { admin, subjectId: params.userId });
  return { admin, step, subject, destroys: mfaPolicyChanges[step].destroys ? confirmAccount(subject.account) : null };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, subject, destroys } = await requirePolicyStep(args);
  const { account, policy } = subject;
  return {
    step,
    subject: { id: account.id, name: account.email ?? account.id },
    destroys,
    generation: policy.generation,
    effects: describePolicyEffects(step, subject),
    lock: step === "reset" ? policy.locks.reset : policy.locks.policy,
    open: listAvailableSteps(policy).includes(step),
    restored: restoreChange(args.context, { request: args.request, admin }),
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, subject, destroys } = await requirePolicyStep(args);
  const subjectId = subject.account.id;
  return answerChange(args.context, {
    request: args.request,
    schema: policyChangeSchema,
    destroys,
    change: (change) => applyPolicyStep(args.context, { ...change, admin, step, subjectId }),
    to: () => `/admin/users/${subjectId}?done=${step}`,
  });
}

export default function ConsolePolicyPage() {
  const { step, subject, destroys, generation, effects, lock, open, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const base = `/admin/users/${subject.id}`;
  const { title } = mfaPolicyChanges[step];
  return (
    <Page title={title} lead={subject.name}>
      <Panel>
        {failed || open ? (
          <ChangeForm
            effects={effects}
            destroys={destroys}
            failed={failed ?? restored}
            submit={title}
            cancelTo={base}
            hidden={{ generation }}
          />
        ) : (
          <div className="space-y-4">
            <Notice>{lock ?? "This change isn’t possible in the account’s current state."}</Notice>
            <ButtonLink href={base}>Back to the account</ButtonLink>
          </div>
        )}
      </Panel>
    </Page>
  );
}
