import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { ChangeField } from "../../admin/change-fields.tsx";
import { ChangeForm } from "../../admin/change-form.tsx";
import { reasonedChangeSchema } from "../../admin/confirmation.ts";
import {
  type FailedChange,
  failUnconfirmed,
  failWithErrors,
  failWithRefusal,
  restoreChange,
} from "../../admin/failed-change.ts";
import { requireScope } from "../../admin/model-scope.ts";
import { changeModel, type ModelStep, modelSteps, tierPrices } from "../../admin/model-steps.ts";
import { PriceFields } from "../../admin/price-fields.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.title ?? "Model"} · Console`);

async function requireStep({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const step = params.step ?? "";
  if (!Object.hasOwn(modelSteps, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  const { searchParams } = new URL(request.url);
  return {
    admin,
    step: step as ModelStep,
    scope: await requireScope(context, { step: step as ModelStep, searchParams }),
  };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, scope } = await requireStep(args);
  const { title, hiddenOf, confirmationOf, effects, hasPreview } = modelSteps[step];
  const restored = restoreChange(args.context, { request: args.request, admin });
  const newestFirst = tierPrices(scope.model, scope).toSorted((a, b) => b.id - a.id);
  return {
    step,
    scope,
    title,
    effects: effects(scope),
    destroys: confirmationOf(scope),
    hidden: hiddenOf(scope),
    hasPreview,
    template: newestFirst.find(({ serviceTier }) => serviceTier === "default"),
    restored,
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, scope } = await requireStep(args);
  const form = await readForm(args.request, args.context);
  const typed = Object.fromEntries(form);
  const parsed = modelSteps[step].read(typed, scope);
  const fail = (status: number, failed: FailedChange) => data({ preview: null, failed }, { status });
  if (typed.intent === "preview" && parsed.success) {
    return data({ preview: parsed.preview, failed: failWithRefusal({ message: "" }, form) });
  }
  const reasoned = reasonedChangeSchema.safeParse(typed);
  if (!(parsed.success && reasoned.success)) {
    const missing = typed.intent === "preview" ? [] : (reasoned.error?.issues ?? []);
    const error = new z.ZodError([...(parsed.success ? [] : parsed.error.issues), ...missing]);
    return fail(400, failWithErrors(error, form));
  }
  const unconfirmed = failUnconfirmed(form, modelSteps[step].confirmationOf(scope));
  if (unconfirmed) return fail(400, unconfirmed);
  const change = { ...parsed.change, reason: reasoned.data.reason };
  const done = await changeModel(args.context, { admin, step, change });
  if (done.outcome === "refused") return fail(done.status, failWithRefusal(done, form));
  const model: Record<string, string> = step === "delete" ? {} : { model: scope.model.id };
  throw redirect(`/admin/models?${new URLSearchParams({ ...model, done: "" })}`, 303);
}

export default function ConsoleModelChangePage() {
  const { step, scope, title, effects, destroys, hidden, hasPreview, template, restored } =
    useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? restored;
  const { model, providerId } = scope;
  const back = `/admin/models?${new URLSearchParams({ model: model.id })}`;
  return (
    <Page title={title} lead={step === "price" ? `${model.id} at ${providerId}` : model.id}>
      <Panel>
        <ChangeForm
          effects={effects}
          destroys={destroys}
          failed={failed}
          submit={title}
          cancelTo={back}
          {...(step === "cancel-price" ? { cancel: "Keep price" } : {})}
          hidden={hidden}
          {...(hasPreview ? { preview: answer?.preview ?? null } : {})}
        >
          {step === "grant" ? (
            <ChangeField name="workspace" label="Workspace ID" required spellCheck={false} failed={failed} />
          ) : null}
          {step === "price" ? <PriceFields template={template} failed={failed} /> : null}
        </ChangeForm>
      </Panel>
    </Page>
  );
}
