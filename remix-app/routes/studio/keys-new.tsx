import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { requireFreshUser } from "../../session/user.ts";
import { KeyFields } from "../../studio/keys/key-fields.tsx";
import { readKeyForm } from "../../studio/keys/key-form.ts";
import { createKey } from "../../studio/keys/keys.ts";
import { NewSecret, newKeyFragment } from "../../studio/keys/new-secret.tsx";
import { sampleModel } from "../../studio/keys/sample-model.ts";
import {
  type ModelChoices,
  maxPickerFields,
  pickerView,
  readModelChoices,
} from "../../studio/model-choice/model-choices.ts";
import { modelRows, readModelOptions } from "../../studio/model-choice/model-options.ts";
import { DefaultSubmit } from "../../studio/model-choice/model-picker.tsx";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { unknownModelsText } from "../../studio/unknown-models.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle("New API key");

const permission = "manage_ai_keys";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireFreshUser(context, request);
  const { user, workspace, member } = await requirePermission(context, { request, params, permission });
  const savedForm = takeForm(context, { request, userId: user.id });
  const { choices } = readModelChoices(formOf(savedForm));
  const { plan, picker } = await readPicker(context, { member, choices });
  return { workspace, gatewayUrl: `${context.env.AI_URL}/v1`, savedForm, plan, picker };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request, { keepsForm: true });
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const form = await readForm(request, context, { maxFields: maxPickerFields });
  const typed = Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
  const { choices, shows } = readModelChoices(form);
  const { picker } = await readPicker(context, { member, choices });
  const answer = { issued: null, typed, picker };
  const refused = (errors: Record<string, string>) => data({ ...answer, errors }, { status: 400 });
  if (shows) return data({ ...answer, errors: {} });
  const read = readKeyForm(form, { choices });
  if ("errors" in read) return refused(read.errors);
  const created = await createKey(context, { ...member, key: read.key });
  if ("models" in created) return refused({ models: unknownModelsText(created) });
  const { key, secret } = created;
  const model = await sampleModel(context, { key, workspaceId: workspace.id, signal: request.signal });
  return data({ ...answer, issued: { name: key.name, secret, model }, errors: {}, typed: {} });
}

/** Returns the plan, and the model picker of a key's form. */
async function readPicker(
  context: AppLoadContext,
  { member, choices }: { member: StudioMember; choices: ModelChoices },
) {
  const options = await readModelOptions(context, member);
  return { plan: options.plan, picker: pickerView(modelRows(options, choices.allow), choices) };
}

function formOf(texts: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, text] of Object.entries(texts)) form.set(name, text);
  return form;
}

export default function NewKeyPage() {
  const { workspace, gatewayUrl, savedForm, plan, picker } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const errors: Record<string, string> = answer?.errors ?? {};
  const typed: Record<string, string> = answer?.typed ?? savedForm;
  const keys = `/workspaces/${workspace.id}/ai/keys`;
  if (answer?.issued) {
    return (
      <StudioPage title="API keys">
        <NewSecret {...answer.issued} baseUrl={gatewayUrl} />
        <ButtonLink href={keys}>I’ve copied it</ButtonLink>
      </StudioPage>
    );
  }
  return (
    <StudioPage title="API keys">
      <Card title="New API key" lead="The key is shown once. Its limits can only narrow what the workspace allows.">
        <AccountForm action={`${keys}/new#${newKeyFragment}`} noValidate className="max-w-160 space-y-5">
          <DefaultSubmit>Create key</DefaultSubmit>
          <ErrorSummary id={newKeyFragment} fields={errors} />
          <KeyFields
            values={typed}
            errors={errors}
            isNew
            picker={answer?.picker ?? picker}
            plan={plan}
            pickerAction={`${keys}/new#models`}
          />
          <div className="flex flex-wrap gap-3">
            <Button name="intent" value="save">
              Create key
            </Button>
            <ButtonLink href={keys}>Cancel</ButtonLink>
          </div>
        </AccountForm>
      </Card>
    </StudioPage>
  );
}
