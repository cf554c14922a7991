import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { OverlapField } from "../../admin/app-fields.tsx";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { describeCredential, NewSecretCard } from "../../service-accounts/account-cards.tsx";
import { PublicKeyField, SettingFields } from "../../service-accounts/account-fields.tsx";
import { parseAccountChange } from "../../service-accounts/account-form.ts";
import { accountSteps, confirmStep, stepFor } from "../../service-accounts/account-steps.ts";
import { answerAccountForm } from "../../service-accounts/answer-account-form.ts";
import { changeServiceAccount } from "../../service-accounts/change-account.ts";
import { requireServiceAccountManager } from "../../service-accounts/owner.ts";
import { requireServiceAccount } from "../../service-accounts/service-accounts.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `${data ? accountSteps[data.step].title : "Service account"} · ${data?.owner.label ?? ""}`,
);

async function requireStep({ request, params, context }: LoaderFunctionArgs) {
  const manager = await requireServiceAccountManager(context, { request, params, fresh: true });
  const { workspaceId } = manager.owner;
  const account = await requireServiceAccount(context, { workspaceId, id: params.accountId });
  const step = stepFor(params.step, account);
  const credentialId = new URL(request.url).searchParams.get("credential");
  const credential = account.credentials.find(({ id }) => id === credentialId) ?? null;
  const { requestId } = context;
  if (step === null || (step === "remove" && credential === null)) throw problem("NOT_FOUND", { requestId });
  return { manager, account, step, credential };
}

export async function loader(args: LoaderFunctionArgs) {
  const { manager, account, step, credential } = await requireStep(args);
  const { owner, person } = manager;
  const restored = restoreChange(args.context, { request: args.request, admin: person });
  return { owner, account, step, credential, restored };
}

export async function action(args: ActionFunctionArgs) {
  const { manager, account, step } = await requireStep(args);
  const { owner } = manager;
  const form = await readForm(args.request, args.context);
  return answerAccountForm(args.context, {
    owner,
    account,
    form,
    parsed: parseAccountChange(form, { owner, account, step }),
    destroys: confirmStep(step, account),
    change: (change) => changeServiceAccount(args.context, { manager, account, change }),
  });
}

export default function ServiceAccountChangePage() {
  const { owner, account, step, credential, restored } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const { title, submit, effects } = accountSteps[step];
  const lead = credential ? `${account.name}: ${describeCredential(credential)}` : account.name;
  const page = `${owner.path}/${account.id}`;
  if (answer?.created) {
    return (
      <Page title="New secret" lead={answer.created.name}>
        <NewSecretCard created={answer.created} href={page} />
      </Page>
    );
  }
  const failed = answer?.failed ?? restored;
  return (
    <Page title={title} lead={lead}>
      <Panel>
        <ChangeForm
          effects={effects(account)}
          destroys={confirmStep(step, account)}
          failed={failed}
          submit={submit}
          cancelTo={page}
          hidden={{ version: account.version, ...(credential && { credential: credential.id }) }}
          asksReason={owner.workspaceId === null}
        >
          {step === "edit" ? <SettingFields account={account} offered={owner.scopes} failed={failed} /> : null}
          {step === "rotate" ? <OverlapField failed={failed} /> : null}
          {step === "add-key" ? <PublicKeyField failed={failed} /> : null}
        </ChangeForm>
      </Panel>
    </Page>
  );
}
