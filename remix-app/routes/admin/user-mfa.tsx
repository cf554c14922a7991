import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
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
  const step = params.step ?? "";
  if (!Object.hasOwn(mfaPolicyChanges, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { admin, step: step as PolicyStep };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step } = await requirePolicyStep(args);
  const { account, policy } = await requireSubject(args.context, { admin, subjectId: args.params.userId });
  return {
    step,
    subject: { id: account.id, email: account.email },
    generation: policy.generation,
    effects: describePolicyEffects(step, { account, policy }),
    lock: step === "reset" ? policy.locks.reset : policy.locks.policy,
    open: listAvailableSteps(policy).includes(step),
    restored: restoreChange(args.context, { request: args.request, admin }),
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step } = await requirePolicyStep(args);
  const { request, params, context } = args;
  const subjectId = params.userId ?? "";
  await requireSubject(context, { admin, subjectId });
  return answerChange(context, {
    request,
    schema: policyChangeSchema,
    change: (change, confirmation) => applyPolicyStep(context, { ...change, confirmation, admin, step, subjectId }),
    to: () => `/admin/users/${subjectId}?done=${step}`,
  });
}

export default function ConsolePolicyPage() {
  const { step, subject, generation, effects, lock, open, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const base = `/admin/users/${subject.id}`;
  const { title } = mfaPolicyChanges[step];
  return (
    <Page title={title} lead={subject.email ?? subject.id}>
      <Panel>
        {failed || open ? (
          <ChangeForm
            effects={effects}
            confirm={{ text: subject.email ?? "", what: "the account’s email" }}
            failed={failed ?? restored}
            submit={title}
            danger={step === "reset"}
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
