import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { readForm } from "../../http/form.ts";
import { NewSecretCard } from "../../service-accounts/account-cards.tsx";
import { CredentialFields, SettingFields } from "../../service-accounts/account-fields.tsx";
import { parseNewAccount } from "../../service-accounts/account-form.ts";
import { answerAccountForm } from "../../service-accounts/answer-account-form.ts";
import { addServiceAccount } from "../../service-accounts/change-account.ts";
import { requireServiceAccountManager } from "../../service-accounts/owner.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `New service account · ${data?.owner.label ?? ""}`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { owner, person } = await requireServiceAccountManager(context, { request, params, fresh: true });
  return { owner, restored: restoreChange(context, { request, admin: person }) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const manager = await requireServiceAccountManager(context, { request, params, fresh: true });
  const { owner } = manager;
  const form = await readForm(request, context);
  return answerAccountForm(context, {
    owner,
    account: null,
    form,
    parsed: parseNewAccount(form, owner),
    change: (account) => addServiceAccount(context, { manager, account }),
  });
}

export default function NewServiceAccountPage() {
  const { owner, restored } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  if (answer?.created) {
    return (
      <Page title="Service account created" lead={answer.created.name}>
        <NewSecretCard created={answer.created} href={answer.created.page} />
      </Page>
    );
  }
  const failed = answer?.failed ?? restored;
  return (
    <Page title="New service account" lead={owner.workspaceId === null ? "For the platform." : `For ${owner.label}.`}>
      <Panel>
        {owner.scopes.length === 0 ? (
          <Notice tone="warn">
            Your role has no permission that a service account can have. Ask an owner of the workspace.
          </Notice>
        ) : (
          <ChangeForm
            effects={[
              "Once you confirm, the program can get tokens that last 15 minutes, with the scopes below.",
              "You’re responsible for what it does. It keeps working if you leave, until it expires or is revoked.",
            ]}
            failed={failed}
            submit="Create service account"
            cancelTo={owner.path}
            asksReason={owner.workspaceId === null}
          >
            <SettingFields account={null} offered={owner.scopes} failed={failed} />
            <CredentialFields failed={failed} />
          </ChangeForm>
        )}
      </Panel>
    </Page>
  );
}
