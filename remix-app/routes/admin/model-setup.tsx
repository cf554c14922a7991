import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { reasonedChangeSchema } from "../../admin/confirmation.ts";
import { type FailedChange, failUnconfirmed, failWithErrors, restoreChange } from "../../admin/failed-change.ts";
import { confirmationOf, describeSetup, listSetupFaults } from "../../admin/model-setup/difference.ts";
import {
  acceptCurrent,
  changeForm,
  completeFields,
  createBlankModel,
  fieldsOf,
  listChosenProviders,
  type Typed,
} from "../../admin/model-setup/fields.ts";
import { SetupForm } from "../../admin/model-setup/form.tsx";
import { lookUpPrices } from "../../admin/model-setup/look-up.ts";
import { findSetup, readSetup } from "../../admin/model-setup/read-setup.ts";
import { failAtPart, saveModelSetup } from "../../admin/model-setup/save-setup.ts";
import { type TestResult, testRoutes } from "../../admin/model-setup/test-call.ts";
import { type ConsoleModel, requireModel } from "../../admin/models.ts";
import { listPlans } from "../../admin/plans.ts";
import { readProposedLimits } from "../../admin/prices/limits.ts";
import { maxSourceBytes } from "../../admin/prices/read-source.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { describeGatewayFault, readProviderListing } from "../../gateway/provider-setup.ts";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { largestForm } from "../../session/saved-form.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

/** Enough for a model with 100 routes and 1,000 plans. */
const formLimits = { ...largestForm, maxBytes: 256 * 1_024 };

export const meta = pageTitle<typeof loader>((data) => `${data?.model.id ? "Edit model" : "Add model"} · Console`);

async function requireSetup({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { pathname, searchParams } = new URL(request.url);
  const [model, gateway] = await Promise.all([
    pathname === "/admin/models/new"
      ? listPlans(context).then(createBlankModel)
      : requireModel(context, searchParams.get("model")),
    readProviderListing(context, { signal: request.signal }),
  ]);
  return { admin, model, ...gateway };
}

type Setup = Awaited<ReturnType<typeof requireSetup>>;

/** Returns the fields of the form as it is first shown: a new model has one route. */
function firstFields({ model, listing }: Setup, limits: ReturnType<typeof readProposedLimits>): Typed {
  const proposed = Object.entries(limits).map(([name, value]) => [name, String(value)] as const);
  const typed = { ...fieldsOf(model), ...Object.fromEntries(proposed) };
  return model.id === "" ? addRoute(typed, { model, listing }) : typed;
}

/** Adds a route to the first provider that no route names yet. */
function addRoute(typed: Typed, { model, listing }: Pick<Setup, "model" | "listing">): Typed {
  const chosen = listChosenProviders(typed);
  const providers = listing?.providers ?? [];
  const { id: providerId } = providers.find(({ id }) => !chosen.includes(id)) ?? providers[0] ?? { id: "" };
  return completeFields(changeForm(typed, { intent: "add-route", providerId }) ?? typed, model);
}

export async function loader(args: LoaderFunctionArgs) {
  const { request, context } = args;
  const found = await requireSetup(args);
  const { admin, model, listing, fault } = found;
  const restored = restoreChange(context, { request, admin });
  const limits = readProposedLimits(new URL(request.url).searchParams);
  const typed = restored ? completeFields(restored.typed, model) : firstFields(found, limits);
  return {
    model,
    listing,
    gatewayFault: fault === null ? null : describeGatewayFault(fault),
    sources: context.env.PRICE_SOURCE_URLS.map((url) => new URL(url).host),
    ...showForm(model, { message: null, fields: {}, typed }),
  };
}

/** Returns what the page shows of a form: its fields, what is still missing, and what to type to confirm. */
function showForm(model: ConsoleModel, shown: FailedChange) {
  const setup = findSetup(shown.typed, model);
  return {
    shown,
    faults: setup ? listSetupFaults(model, setup) : [],
    destroys: setup ? confirmationOf(model, setup) : null,
    preview: null as string[] | null,
    tests: [] as TestResult[],
    notes: {} as Record<string, string>,
    lines: [] as string[],
  };
}

export async function action(args: ActionFunctionArgs) {
  const { request, context } = args;
  const found = await requireSetup(args);
  const { admin, model, listing } = found;
  const form = await readForm(request, context, formLimits);
  const sent: Typed = Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
  const { intent = "", ...fields } = sent;
  // The form of an existing model has no fields for these.
  const entered: Typed = model.id === "" ? fields : { ...fields, id: model.id, kind: model.kind };
  const typed = completeFields(entered, model);
  const show = (shown: Typed) => showForm(model, { message: null, fields: {}, typed: shown });
  if (intent === "look-up") {
    const slot = { owner: admin.id, requestId: context.requestId, maxBytes: 2 * maxSourceBytes };
    const lookUp = await withUploadSlot(request, slot, () => lookUpPrices(context, { admin, typed, listing }));
    return data({ ...show(lookUp.typed), notes: lookUp.notes, lines: lookUp.lines });
  }
  if (intent === "test") {
    const tests = await testRoutes(context, { typed, listing, tester: { actor: admin.id }, signal: request.signal });
    return data({ ...show(typed), tests });
  }
  if (intent === "add-route") return data(show(addRoute(typed, found)));
  const changed = changeForm(typed, { intent, providerId: "" });
  if (changed) return data(show(completeFields(changed, model)));

  // Reads the form as it was sent, because prices that the admin didn't see must not be saved.
  const { setup, error } = readSetup(entered, model);
  const reasoned = reasonedChangeSchema.safeParse(sent);
  const isPreview = intent === "preview";
  const missing = isPreview ? [] : (reasoned.error?.issues ?? []);
  const showFailed = (failed: FailedChange) =>
    showForm(model, { ...failed, typed: completeFields(failed.typed, model) });
  if (!setup || missing.length > 0) {
    return data(showFailed(failWithErrors(new z.ZodError([...(error?.issues ?? []), ...missing]), form)), {
      status: 400,
    });
  }
  const preview = describeSetup(model, setup);
  if (isPreview || !reasoned.data) return data({ ...show(typed), preview });
  const unconfirmed = failUnconfirmed(form, confirmationOf(model, setup));
  if (unconfirmed) return data({ ...showFailed(unconfirmed), preview }, { status: 400 });
  const saved = await saveModelSetup(context, { admin, setup, reason: reasoned.data.reason });
  if (saved.outcome === "refused") {
    const { status } = saved;
    if (status !== 409) return data(showFailed(failAtPart(saved, { setup, typed: entered })), { status });
    // Saving again would undo what another admin changed meanwhile, so the answer lists the differences from that.
    const changedPrices = setup.prices.map(({ providerId }) => providerId);
    const { confirmation: _, ...accepted } = acceptCurrent(entered, { model, changedPrices });
    const shown = showFailed(failAtPart(saved, { setup, typed: accepted }));
    const differences = describeSetup(model, findSetup(accepted, model) ?? setup);
    return data({ ...shown, preview: model.id === "" ? null : differences }, { status });
  }
  throw redirect(`/admin/models?${new URLSearchParams({ model: setup.model, done: "" })}`, 303);
}

export default function ConsoleModelSetupPage() {
  const { model, listing, gatewayFault, sources, ...first } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  return (
    <Page title={model.id === "" ? "Add model" : "Edit model"} lead={model.id}>
      <Panel>
        <SetupForm
          model={model}
          listing={listing}
          gatewayFault={gatewayFault}
          sources={sources}
          {...(answer ?? first)}
        />
      </Panel>
    </Page>
  );
}
