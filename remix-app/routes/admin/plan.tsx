import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { ChangeForm } from "../../admin/change-form.tsx";
import { confirms } from "../../admin/console-change.ts";
import { failWithErrors, failWithRefusal, restoreChange } from "../../admin/failed-change.ts";
import { PlanFields } from "../../admin/plan-fields.tsx";
import { editedPlanSchema, newPlanSchema, planEffects, requirePlan, savePlan } from "../../admin/plans.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.plan ? "Edit plan" : "Add plan"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const plan = params.planId === undefined ? null : await requirePlan(context, params.planId);
  return { plan, kept: restoreChange(context, { request, admin }) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const form = await readForm(request, context);
  const fields = Object.fromEntries(form);
  const parsed =
    params.planId === undefined
      ? newPlanSchema.transform((change) => ({ ...change, seen: null })).safeParse(fields)
      : editedPlanSchema.transform((change) => ({ ...change, plan: params.planId ?? "" })).safeParse(fields);
  if (!parsed.success) return data(failWithErrors(parsed.error, form), { status: 400 });
  const { confirmation, ...change } = parsed.data;
  if (!confirms(confirmation, change.plan)) {
    const message = "That isn’t the plan’s ID. Nothing was changed.";
    return data(failWithRefusal({ message, field: "confirmation" }, form), { status: 400 });
  }
  const done = await savePlan(context, { ...change, admin });
  if (done.outcome === "refused") return data(failWithRefusal(done, form), { status: done.status });
  throw redirect("/admin/plans?done", 303);
}

export default function ConsolePlanPage() {
  const { plan, kept } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? kept;
  return (
    <Page title={plan ? `Edit ${plan.name}` : "Add plan"} lead={plan?.id}>
      <Panel>
        <ChangeForm
          effects={planEffects(plan)}
          confirm={plan ? { text: plan.id, what: "the plan’s ID" } : { label: "Type the plan’s ID again to confirm" }}
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
