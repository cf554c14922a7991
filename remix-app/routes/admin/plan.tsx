import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { PlanFields } from "../../admin/plan-fields.tsx";
import { editedPlanSchema, newPlanSchema, planEffects, requirePlan, savePlan } from "../../admin/plans.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.plan ? "Edit plan" : "Add plan"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const plan = params.planId === undefined ? null : await requirePlan(context, params.planId);
  return { plan, restored: restoreChange(context, { request, admin }) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { planId } = params;
  return answerChange(context, {
    request,
    schema:
      planId === undefined
        ? newPlanSchema.transform((change) => ({ ...change, seen: null as string | null }))
        : editedPlanSchema.transform((change) => ({ ...change, plan: planId })),
    change: (change) => savePlan(context, { ...change, admin }),
    to: () => "/admin/plans?done",
  });
}

export default function ConsolePlanPage() {
  const { plan, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  return (
    <Page title={plan ? `Edit ${plan.name}` : "Add plan"} lead={plan?.id}>
      <Panel>
        <ChangeForm
          effects={planEffects(plan)}
          failed={failed}
          submit={plan ? "Save changes" : "Add plan"}
          cancelTo="/admin/plans"
          hidden={plan ? { seen: plan.version } : {}}
        >
          <PlanFields plan={plan} failed={failed} />
        </ChangeForm>
      </Panel>
    </Page>
  );
}
