import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { maxPickerFields, pickerView } from "../../studio/model-choice/model-choices.ts";
import { modelRows } from "../../studio/model-choice/model-options.ts";
import { type AiPolicy, changeReadPolicy, readPolicyPage } from "../../studio/policy/ai-policy.ts";
import { maxModelLimitFields, modelLimitFields } from "../../studio/policy/model-limit-fields.tsx";
import { PolicyCards } from "../../studio/policy/policy-cards.tsx";
import { policyFields, readPolicyForm } from "../../studio/policy/policy-form.ts";
import { policyDifferences, policyWords } from "../../studio/policy/policy-words.ts";
import { unknownModelsText } from "../../studio/unknown-models.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { FactList } from "../../ui/facts.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `AI policy · ${data?.workspace.name ?? "Workspace"}`);

const readAtSchema = z.iso.datetime({ offset: true }).nullable();

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { policy, options } = await readPolicyPage(context, member);
  const { models: catalogue, ...frame } = options;
  const { choices, ...fields } = policyFields(policy);
  return {
    workspace,
    manages: workspace.permissions.includes("manage_ai_policy"),
    frame,
    policy,
    models: pickerView(modelRows(options, namesOf(policy)), choices),
    modelIds: catalogue.filter(({ granted }) => granted).map(({ id }) => id),
    fields,
    saved: new URL(request.url).searchParams.has("saved"),
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "manage_ai_policy" });
  const form = await readForm(request, context, { maxFields: maxPickerFields + maxModelLimitFields });
  const { fields: read, rules, errors } = readPolicyForm(form);
  const { policy, options } = await readPolicyPage(context, member);
  const { choices, ...fields } = read;
  const rows = modelRows(options, [...namesOf(policy), ...choices.allow, ...choices.deny]);
  const typed = { fields, models: pickerView(rows, choices), meanwhile: null };
  const seen = readAtSchema.safeParse(form.get("readAt") || null);
  if (!seen.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  const readAt = seen.data;
  if (errors) return data({ ...typed, errors, readAt }, { status: Object.keys(errors).length > 0 ? 400 : 200 });
  const changed = await changeReadPolicy(context, { ...member, changes: rules, readAt });
  if (changed.outcome === "unknown_models") {
    const place = fields.modelLimits.findIndex(({ model }) => changed.models.includes(model));
    const field = changed.param === "modelLimits" ? modelLimitFields(place).model : "models";
    const unknown: Record<string, string> = { [field]: unknownModelsText(changed) };
    return data({ ...typed, errors: unknown, readAt }, { status: 400 });
  }
  if (changed.outcome === "changed") throw redirect(`/workspaces/${workspace.id}/ai/policy?saved=yes`, 303);
  const { updatedAt, updatedBy } = changed.policy;
  const meanwhile = { updatedAt, updatedBy, differences: policyDifferences(changed.policy, rules) };
  return data({ ...typed, errors: {}, readAt: updatedAt, meanwhile }, { status: 409 });
}

function namesOf({ allowedModels, deniedModels }: Pick<AiPolicy, "allowedModels" | "deniedModels">): string[] {
  return [...(allowedModels ?? []), ...deniedModels];
}

export default function PolicyPage() {
  const { workspace, manages, frame, models, modelIds, policy, fields, saved } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  return (
    <StudioPage
      title="AI policy"
      lead={
        <>
          Which models this workspace can use, its rate limits, and what’s kept of its requests. Changes apply from the
          next request.
          {policy.updatedAt ? (
            <>
              {" "}
              Last changed <RelativeTime at={policy.updatedAt} />
              {policy.updatedBy ? ` by ${policy.updatedBy}` : ""}.
            </>
          ) : null}
        </>
      }
    >
      {saved && !answer ? <Notice tone="good">Policy saved.</Notice> : null}
      {answer?.meanwhile ? (
        <Notice tone="warn">
          <p>
            {answer.meanwhile.updatedBy ?? "Someone"} changed the policy while you were editing it. Your changes aren’t
            saved yet. Save again to replace theirs:
          </p>
          <ul className="mt-1.5 list-disc space-y-1 pl-5">
            {answer.meanwhile.differences.map(({ label, theirs, yours }) => (
              <li key={label}>
                {label}: now “{theirs}”, yours “{yours}”
              </li>
            ))}
          </ul>
        </Notice>
      ) : null}
      {manages ? (
        <PolicyCards
          action={`/workspaces/${workspace.id}/ai/policy`}
          frame={frame}
          models={answer?.models ?? models}
          modelIds={modelIds}
          fields={answer?.fields ?? fields}
          errors={answer?.errors ?? {}}
          readAt={answer ? answer.readAt : policy.updatedAt}
        />
      ) : (
        <Card title="Rules" lead="Your role doesn’t let you change these rules. Ask someone who manages the AI policy.">
          <FactList facts={policyWords(policy).map(({ label, text }) => [label, text])} />
        </Card>
      )}
    </StudioPage>
  );
}
