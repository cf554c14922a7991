import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { requireFreshUser } from "../../session/user.ts";
import { readKeyForm } from "../../studio/keys/key-form.ts";
import { createKey } from "../../studio/keys/keys.ts";
import { NewSecret } from "../../studio/keys/new-secret.tsx";
import { sampleModel } from "../../studio/keys/sample-model.ts";
import {
  type ModelChoices,
  maxPickerFields,
  pickerView,
  readModelChoices,
} from "../../studio/model-choice/model-choices.ts";
import { modelRows, readModelOptions } from "../../studio/model-choice/model-options.ts";
import { DefaultSubmit, ModelPicker } from "../../studio/model-choice/model-picker.tsx";
import { tokenLimitHint } from "../../studio/policy/policy-words.ts";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { unknownModelsText } from "../../studio/unknown-models.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { CheckBox, Field } from "../../ui/field.tsx";
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
  const read = readKeyForm(form, choices);
  if ("errors" in read) return refused(read.errors);
  const created = await createKey(context, { ...member, key: read.key });
  if ("models" in created) return refused({ models: unknownModelsText(created) });
  const { key, secret } = created;
  const model = await sampleModel(context, { key, workspaceId: workspace.id, signal: request.signal });
  return data({ ...answer, issued: { secret, model }, errors: {}, typed: {} });
}

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

interface FieldText {
  name: string;
  label: string;
  hint?: string;
  type?: string;
  required?: boolean;
}

const fields: FieldText[] = [
  { name: "name", label: "Name", hint: "Such as the name of the app that will use it.", required: true },
  { name: "environment", label: "Environment", hint: "Optional. Such as production or staging." },
  {
    name: "expiresOn",
    label: "Expires on",
    type: "date",
    hint: "Optional. The key stops working on this day at 00:00 UTC.",
  },
  { name: "monthlyBudgetUsd", label: "Monthly budget in USD", hint: "Optional. Requests beyond it are refused." },
  {
    name: "entityId",
    label: "Entity label",
    hint: "Optional. Added to every request made with this key, such as customer:7. If the label has a budget, requests over that budget are refused.",
  },
  { name: "requestsPerMinute", label: "Requests per minute", hint: "Optional." },
  { name: "tokensPerMinute", label: "Tokens per minute", hint: `Optional. ${tokenLimitHint}` },
  {
    name: "allowedAddresses",
    label: "Allowed IP addresses",
    hint: "Optional. IP addresses or CIDR ranges, separated by spaces. Requests from elsewhere are refused.",
  },
];

export default function NewKeyPage() {
  const { workspace, gatewayUrl, savedForm, plan, picker } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const errors: Record<string, string> = answer?.errors ?? {};
  const typed: Record<string, string> = answer?.typed ?? savedForm;
  if (answer?.issued) {
    return (
      <StudioPage title="API keys">
        <NewSecret {...answer.issued} baseUrl={gatewayUrl} />
        <ButtonLink href={`/workspaces/${workspace.id}/ai/keys`}>I’ve copied it</ButtonLink>
      </StudioPage>
    );
  }
  return (
    <StudioPage title="API keys">
      <Card title="New API key" lead="The key is shown once. Its limits can only narrow what the workspace allows.">
        <AccountForm noValidate className="max-w-160 space-y-5">
          <DefaultSubmit>Create key</DefaultSubmit>
          <ErrorSummary id="new-key-error" fields={errors} />
          {fields.map(({ name, ...field }) => (
            <Field
              key={name}
              name={name}
              {...field}
              autoComplete="off"
              defaultValue={typed[name]}
              error={errors[name]}
            />
          ))}
          <ModelPicker
            view={answer?.picker ?? picker}
            plan={plan}
            legend="Allowed models"
            words={{ all: "All models of the workspace, including new ones", selected: "Only selected models" }}
            error={errors.models}
          />
          <CheckBox
            name="strict"
            label="Strict mode"
            hint="Refuse requests that use fields or tools the provider doesn’t support. If off, we drop those fields and tools and list them in the response."
            defaultChecked={typed.strict === "on"}
          />
          <div className="flex flex-wrap gap-3">
            <Button name="intent" value="save">
              Create key
            </Button>
            <ButtonLink href={`/workspaces/${workspace.id}/ai/keys`}>Cancel</ButtonLink>
          </div>
        </AccountForm>
      </Card>
    </StudioPage>
  );
}
