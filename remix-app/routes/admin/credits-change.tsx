import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { ChangeForm } from "../../admin/change-form.tsx";
import { confirms } from "../../admin/console-change.ts";
import {
  type CreditStep,
  changeCredits,
  creditChangeSchema,
  creditEffects,
  creditLock,
  creditSteps,
  newReference,
  requireCreditAccount,
} from "../../admin/credits.ts";
import { failWithErrors, failWithRefusal, restoreChange } from "../../admin/failed-change.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Field } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data ? creditSteps[data.step].title : "Credits"} · Console`);

async function requireStep({ request, params, context }: Pick<LoaderFunctionArgs, "request" | "params" | "context">) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { payer, ownerId, step = "" } = params;
  if (!Object.hasOwn(creditSteps, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  const owner = await requireCreditAccount(context, { payer, ownerId, cursor: null });
  return { admin, step: step as CreditStep, owner };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, owner } = await requireStep(args);
  const { payer, id, name } = owner;
  return {
    step,
    owner: { payer, id, name },
    effects: creditEffects(step, owner),
    lock: creditLock(admin, owner),
    reference: newReference(),
    kept: restoreChange(args.context, { request: args.request, admin }),
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, owner } = await requireStep(args);
  const form = await readForm(args.request, args.context);
  const parsed = creditChangeSchema.safeParse(Object.fromEntries(form));
  if (!parsed.success) return data(failWithErrors(parsed.error, form), { status: 400 });
  const { confirmation, ...change } = parsed.data;
  if (!confirms(confirmation, owner.name)) {
    const message = "That isn’t the owner’s name. Nothing was changed.";
    return data(failWithRefusal({ message, field: "confirmation" }, form), { status: 400 });
  }
  const done = await changeCredits(args.context, { ...change, admin, payer: owner.payer, ownerId: owner.id, step });
  if (done.outcome === "refused") return data(failWithRefusal(done, form), { status: done.status });
  throw redirect(`/admin/credits/${owner.payer}/${owner.id}?done=${done.repeated ? "repeated" : step}`, 303);
}

export default function ConsoleCreditsChangePage() {
  const { step, owner, effects, lock, reference, kept } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? kept;
  const fieldOf = (name: string, known: string) => ({
    name,
    autoComplete: "off",
    defaultValue: failed?.typed[name] ?? known,
    error: failed?.fields[name]?.[0],
  });
  return (
    <Page title={creditSteps[step].title} lead={owner.name}>
      <Panel>
        {lock ? (
          <Notice>{lock}</Notice>
        ) : (
          <ChangeForm
            effects={effects}
            confirm={{
              text: owner.name,
              what: owner.payer === "workspace" ? "the workspace’s name" : "the member’s email",
            }}
            failed={failed}
            submit={creditSteps[step].title}
            danger={step === "withdraw"}
            cancelTo={`/admin/credits/${owner.payer}/${owner.id}`}
          >
            <Field {...fieldOf("amount", "")} label="Credits" inputMode="decimal" required />
            <Field
              {...fieldOf("reference", reference)}
              label="Reference"
              hint="Such as an invoice number. Each reference can be used only once in this ledger."
              maxLength={120}
              spellCheck={false}
              required
            />
            <Field
              {...fieldOf("description", "")}
              label="Description"
              hint="Optional. Members see it in the ledger."
              maxLength={200}
            />
          </ChangeForm>
        )}
      </Panel>
    </Page>
  );
}
