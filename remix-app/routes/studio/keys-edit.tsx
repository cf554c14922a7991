import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { requireFreshUser } from "../../session/user.ts";
import { KeyFields } from "../../studio/keys/key-fields.tsx";
import { keyChanges, keyDifferences, keyFields, readKeyForm } from "../../studio/keys/key-form.ts";
import type { KeySummary } from "../../studio/keys/key-schema.ts";
import { changeKey, requireKey } from "../../studio/keys/keys.ts";
import { choicesOf, maxPickerFields, pickerView, readModelChoices } from "../../studio/model-choice/model-choices.ts";
import { modelRows, readModelOptions } from "../../studio/model-choice/model-options.ts";
import { DefaultSubmit } from "../../studio/model-choice/model-picker.tsx";
import { unknownModelsText } from "../../studio/unknown-models.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Edit ${data?.key.name ?? "key"}`);

const permission = "manage_ai_keys";

const notApproved =
  "This change lets the key do more than before, which needs the same approval as a new key. This workspace isn’t approved to create API keys. Stricter limits, the name and the budget can be changed without it.";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireFreshUser(context, request);
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const [{ key }, options] = await Promise.all([
    requireKey(context, { ...member, keyId: params.keyId ?? "" }),
    readModelOptions(context, member),
  ]);
  const choices = choicesOf({ allowed: key.allowedModels });
  const values: Record<string, string> = { ...keyFields(key), version: key.version };
  return { workspace, key, values, plan: options.plan, picker: pickerView(modelRows(options, choices.allow), choices) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request);
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const form = await readForm(request, context, { maxFields: maxPickerFields });
  const typed = Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
  const { choices, shows } = readModelChoices(form);
  const keyId = params.keyId ?? "";
  const [{ key }, options] = await Promise.all([
    requireKey(context, { ...member, keyId }),
    readModelOptions(context, member),
  ]);
  const picker = pickerView(modelRows(options, [...(key.allowedModels ?? []), ...choices.allow]), choices);
  const answer = { typed, picker, failed: null, differences: null, errors: {} as Record<string, string> };
  if (shows) return data(answer);
  const read = readKeyForm(form, { choices, expiresAt: key.expiresAt });
  if ("errors" in read) return data({ ...answer, errors: read.errors }, { status: 400 });
  const changes = keyChanges(read.key);
  const changed = await changeKey(context, { ...member, keyId, changes, version: String(typed.version) });
  switch (changed.outcome) {
    case "changed":
      throw redirect(`/workspaces/${workspace.id}/ai/keys?saved=yes`, 303);
    case "unknown_models":
      return data({ ...answer, errors: { models: unknownModelsText(changed) } }, { status: 400 });
    case "not_approved":
      return data({ ...answer, failed: notApproved }, { status: 403 });
    case "changed_meanwhile": {
      const differences = keyDifferences(changed.key, changes);
      return data({ ...answer, typed: { ...typed, version: changed.key.version }, differences }, { status: 409 });
    }
  }
}

/** Returns why a key can’t be edited, or null if it can. */
function obstacle({ state, agent }: KeySummary): string | null {
  if (agent) return "A coding agent renews this key, so it can’t be edited. Revoke it to stop the agent.";
  switch (state) {
    case "active":
      return null;
    case "replaced":
      return "This key was replaced. Edit the key that replaced it, or revoke this one.";
    case "expired":
      return "This key has expired, and a key that stopped working never works again. Create a new key.";
    case "revoked":
      return "This key was revoked, and a key that stopped working never works again. Create a new key.";
  }
}

export default function EditKeyPage() {
  const { workspace, key, plan, picker, ...loaded } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const list = `/workspaces/${workspace.id}/ai/keys`;
  const page = `${list}/${key.id}/edit`;
  const stopped = obstacle(key);
  const values: Record<string, string> = answer?.typed ?? loaded.values;
  return (
    <StudioPage title="API keys">
      <Card
        title={`Edit ${key.name}`}
        lead={
          stopped
            ? undefined
            : `Changes apply from the next request.${key.entityId ? ` The entity label ${key.entityId} never changes.` : ""}`
        }
      >
        {stopped ? (
          <div className="space-y-5">
            <Notice tone="warn">{stopped}</Notice>
            <ButtonLink href={list}>Back to keys</ButtonLink>
          </div>
        ) : (
          <AccountForm action={page} noValidate className="max-w-160 space-y-5">
            <DefaultSubmit>Save key</DefaultSubmit>
            <ErrorSummary id="edit-key-error" form={answer?.failed} fields={answer?.errors ?? {}} />
            {answer?.differences ? (
              <Notice tone="warn">
                <p>
                  Someone changed this key while you were editing it. Your changes aren’t saved yet. Save again to
                  replace theirs:
                </p>
                <ul className="mt-1.5 list-disc space-y-1 pl-5">
                  {answer.differences.map(({ label, theirs, yours }) => (
                    <li key={label}>
                      {label}: now “{theirs}”, yours “{yours}”
                    </li>
                  ))}
                </ul>
              </Notice>
            ) : null}
            <input type="hidden" name="version" value={values.version} />
            <KeyFields
              values={values}
              errors={answer?.errors ?? {}}
              isNew={false}
              picker={answer?.picker ?? picker}
              plan={plan}
              pickerAction={`${page}#models`}
            />
            <div className="flex flex-wrap gap-3">
              <Button name="intent" value="save">
                Save key
              </Button>
              <ButtonLink href={list}>Cancel</ButtonLink>
            </div>
          </AccountForm>
        )}
      </Card>
    </StudioPage>
  );
}
