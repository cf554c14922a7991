import { type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { keptChange, refused, unreadable } from "../../admin/change-answer.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { confirms } from "../../admin/console-change.ts";
import { addPrice, priceChangeSchema, requireModel, setModelEnabled, switchSchema } from "../../admin/models.ts";
import { PriceFields } from "../../admin/price-fields.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";

const steps = { enable: "Enable the model", disable: "Disable the model", price: "Add a price" } as const;
type Step = keyof typeof steps;

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `${data ? steps[data.step] : "Model"} · Console · Gatehouse` },
];

async function requireStep({ request, params, context }: Pick<LoaderFunctionArgs, "request" | "params" | "context">) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const step = params.step ?? "";
  if (!Object.hasOwn(steps, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  const model = await requireModel(context, searchParams.get("model"));
  const providerId = searchParams.get("provider") ?? "";
  const minInputTokens = Number(searchParams.get("tier") ?? "0");
  const known = Number.isSafeInteger(minInputTokens) && minInputTokens >= 0 && minInputTokens <= 2_147_483_647;
  if (step === "price" && !(known && model.providers.includes(providerId))) {
    throw problem("NOT_FOUND", { requestId: context.requestId });
  }
  return { admin, step: step as Step, model, providerId, minInputTokens };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, model, providerId, minInputTokens } = await requireStep(args);
  const tier = model.prices.filter(
    (price) => price.providerId === providerId && price.minInputTokens === minInputTokens,
  );
  const newestFirst = tier.toSorted((a, b) => b.id - a.id);
  const latest = newestFirst[0]?.id;
  const template = newestFirst.find(({ serviceTier }) => serviceTier === "default");
  return {
    step,
    model,
    providerId,
    latest,
    template,
    kept: keptChange(args.context, { request: args.request, admin }),
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, model, providerId, minInputTokens } = await requireStep(args);
  const form = await readForm(args.request, args.context);
  const asked = (step === "price" ? priceChangeSchema : switchSchema).safeParse(Object.fromEntries(form));
  if (!asked.success) return data(unreadable(asked.error, form), { status: 400 });
  const { confirmation, ...change } = asked.data;
  if (!confirms(confirmation, model.id)) {
    const message = "What you typed is not the model's id, so nothing was changed.";
    return data(refused({ message, field: "confirmation" }, form), { status: 400 });
  }
  const done =
    change.of === "price"
      ? await addPrice(args.context, { ...change, admin, model: model.id, providerId, minInputTokens })
      : await setModelEnabled(args.context, {
          reason: change.reason,
          admin,
          model: model.id,
          enabled: step === "enable",
        });
  if (done.outcome === "refused") return data(refused(done, form), { status: done.status });
  throw redirect(`/admin/models?${new URLSearchParams({ model: model.id, done: "" })}`, 303);
}

const effects: Record<Step, (name: string) => string[]> = {
  enable: (name) => [`From the moment you confirm, whoever has ${name} granted by plan or by hand can call it.`],
  disable: (name) => [
    `From the moment you confirm, nobody can call ${name}. Calls that run now finish.`,
    "Its prices and what was recorded of it stay.",
  ],
  price: (name) => [
    `Calls of ${name} that begin from that time on are charged at this price. Earlier calls keep theirs.`,
    "The previous price of the same service tier ends at that time. Prices are never edited or removed: to correct one, add another.",
  ],
};

export default function ConsoleModelChangePage() {
  const { step, model, providerId, latest, template, kept } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? kept;
  const lead = step === "price" ? `${model.id} through ${providerId}` : model.id;
  return (
    <ConsolePage title={steps[step]} lead={lead}>
      <Card title="What will happen">
        <ChangeForm
          effects={effects[step](model.displayName)}
          confirm={{ text: model.id, what: "the model's id" }}
          failed={failed}
          submit={steps[step]}
          cancelTo={`/admin/models?${new URLSearchParams({ model: model.id })}`}
          hidden={step === "price" ? { latest: latest ?? "" } : {}}
        >
          {step === "price" ? <PriceFields template={template} failed={failed} /> : null}
        </ChangeForm>
      </Card>
    </ConsolePage>
  );
}
