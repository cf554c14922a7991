import { Link, type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/server-runtime";
import { readForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { takeForm } from "../../session/kept-form.ts";
import { requireFreshUser } from "../../session/user.ts";
import { readKeyForm } from "../../studio/keys/key-form.ts";
import { createKey } from "../../studio/keys/keys.ts";
import { NewSecret } from "../../studio/keys/new-secret.tsx";
import { sampleModel } from "../../studio/keys/sample-model.ts";
import { tokenLimitHint } from "../../studio/policy/policy-words.ts";
import { unknownModelsText } from "../../studio/unknown-models.ts";
import { Button, buttonClass } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { CheckBox, Field } from "../../ui/field.tsx";
import { PostForm } from "../../ui/post-form.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { hydrate: true };

export const meta: MetaFunction = () => [{ title: "New key · Gatehouse" }];

const permission = "manage_ai_keys";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireFreshUser(context, request);
  const { user, workspace } = await requirePermission(context, { request, params, permission });
  const kept = takeForm(context, { request, userId: user.id });
  return { workspace, gatewayUrl: `${context.env.AI_URL}/v1`, kept };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request, { keepsForm: true });
  const { user, workspace } = await requirePermission(context, { request, params, permission });
  const form = await readForm(request, context);
  const read = readKeyForm(form);
  const typed = Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
  const refused = (errors: Record<string, string>) => data({ issued: null, errors, typed }, { status: 400 });
  if ("errors" in read) return refused(read.errors);
  const made = await createKey(context, { userId: user.id, workspaceId: workspace.id, key: read.key });
  if ("models" in made) return refused({ allowedModels: unknownModelsText(made) });
  const { key, secret } = made;
  const model = await sampleModel(context, { key, workspaceId: workspace.id, signal: request.signal });
  return data({ issued: { secret, model }, errors: {}, typed: {} });
}

interface FieldText {
  name: string;
  label: string;
  hint?: string;
  type?: string;
  required?: boolean;
}

const fields: FieldText[] = [
  { name: "name", label: "Name", hint: "The program that will use it.", required: true },
  { name: "environment", label: "Environment", hint: "Such as production or staging. Optional." },
  { name: "expiresOn", label: "Expires on", type: "date", hint: "Optional. The day begins at midnight UTC." },
  { name: "monthlyBudgetUsd", label: "Monthly budget in dollars", hint: "Optional. Calls beyond it are refused." },
  {
    name: "entityId",
    label: "Entity label",
    hint: "Optional. Labels every call of the key, such as customer:7. The label's budget then holds for them.",
  },
  { name: "requestsPerMinute", label: "Requests a minute", hint: "Optional." },
  { name: "tokensPerMinute", label: "Tokens a minute", hint: `Optional. ${tokenLimitHint}` },
  { name: "allowedModels", label: "Models", hint: "Optional. Ids, separated by spaces; others are refused." },
  {
    name: "allowedAddresses",
    label: "Addresses",
    hint: "Optional. Addresses or networks, separated by spaces; calls from elsewhere are refused.",
  },
];

export default function NewKeyPage() {
  const { workspace, gatewayUrl, kept } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const errors: Record<string, string> = answer?.errors ?? {};
  const typed: Record<string, string> = answer?.typed ?? kept;
  if (answer?.issued) {
    return (
      <StudioPage workspace={workspace} title="Keys">
        <NewSecret {...answer.issued} baseUrl={gatewayUrl} />
        <Link to={`/workspaces/${workspace.id}/ai/keys`} className={buttonClass("secondary")}>
          I have copied it
        </Link>
      </StudioPage>
    );
  }
  return (
    <StudioPage workspace={workspace} title="Keys">
      <Card title="New key" lead="It is shown once. Limits can only narrow what the workspace allows.">
        <PostForm noValidate className="max-w-108 space-y-5">
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
          <CheckBox
            name="strict"
            label="Strict mode"
            hint="Refuse calls with fields or tools that the model's provider does not support. Otherwise they are left out, and the answer names them."
            defaultChecked={typed.strict === "on"}
          />
          <div className="flex flex-wrap gap-3">
            <Button>Create key</Button>
            <Link to={`/workspaces/${workspace.id}/ai/keys`} className={buttonClass("secondary")}>
              Cancel
            </Link>
          </div>
        </PostForm>
      </Card>
    </StudioPage>
  );
}
