import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeField } from "../../admin/change-fields.tsx";
import { ChangeForm } from "../../admin/change-form.tsx";
import {
  type CreditChangeKind,
  changeCredits,
  creditChangeKinds,
  creditChangeSchema,
  creditEffects,
  getCreditRestriction,
  newReference,
  requireCreditAccount,
} from "../../admin/credits.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `${data ? creditChangeKinds[data.step].title : "Credits"} · Console`,
);

async function requireStep({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { payer, ownerId, step = "" } = params;
  if (!Object.hasOwn(creditChangeKinds, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  const owner = await requireCreditAccount(context, { payer, ownerId, cursor: null });
  return { admin, step: step as CreditChangeKind, owner };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, owner } = await requireStep(args);
  const { payer, id, name } = owner;
  return {
    step,
    owner: { payer, id, name },
    effects: creditEffects(step, owner),
    lock: getCreditRestriction(admin, owner),
    reference: newReference(),
    restored: restoreChange(args.context, { request: args.request, admin }),
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, owner } = await requireStep(args);
  const { payer, id: ownerId } = owner;
  return answerChange(args.context, {
    request: args.request,
    schema: creditChangeSchema,
    change: (change) => changeCredits(args.context, { ...change, admin, payer, ownerId, step }),
    to: ({ repeated }) => `/admin/credits/${payer}/${ownerId}?done=${repeated ? "repeated" : step}`,
  });
}

export default function ConsoleCreditsChangePage() {
  const { step, owner, effects, lock, reference, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  return (
    <Page title={creditChangeKinds[step].title} lead={owner.name}>
      <Panel>
        {lock ? (
          <Notice>{lock}</Notice>
        ) : (
          <ChangeForm
            effects={effects}
            failed={failed}
            submit={creditChangeKinds[step].title}
            cancelTo={`/admin/credits/${owner.payer}/${owner.id}`}
          >
            <ChangeField name="amount" label="Credits" inputMode="decimal" required failed={failed} />
            <ChangeField
              name="reference"
              value={reference}
              failed={failed}
              label="Reference"
              hint="Such as an invoice number. Each reference can be used only once in this ledger."
              maxLength={120}
              spellCheck={false}
              required
            />
            <ChangeField
              name="description"
              failed={failed}
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
