import { useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/server-runtime";
import { AppFields, AppSecret } from "../../admin/app-fields.tsx";
import { addApp, newAppSchema, scopesOf } from "../../admin/apps.ts";
import { keptChange, refused, unreadable } from "../../admin/change-answer.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Field, Select } from "../../ui/field.tsx";

export const meta = pageTitle("Register an app · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id } = await requireInfrastructureAdmin(context, request);
  return { kept: keptChange(context, { request, admin: { id } }) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const form = await readForm(request, context);
  const asked = newAppSchema.safeParse(Object.fromEntries(form));
  if (!asked.success) return data({ made: null, failed: unreadable(asked.error, form) }, { status: 400 });
  const { confirmation, ...app } = asked.data;
  if (confirmation !== app.name) {
    const failed = refused({ message: "The names don’t match. Nothing was registered." }, form);
    return data({ made: null, failed }, { status: 400 });
  }
  const done = await addApp(context, { ...app, admin, scopes: scopesOf(form) });
  if (done.outcome === "refused") return data({ made: null, failed: refused(done, form) }, { status: done.status });
  const made = { name: app.name, secret: done.secret ?? "" };
  return data({ made, failed: undefined }, { headers: { "Cache-Control": "private, no-store" } });
}

export default function ConsoleNewAppPage() {
  const { kept } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? kept;
  if (answer?.made) {
    return (
      <ConsolePage title="App registered" lead={answer.made.name}>
        <AppSecret {...answer.made} />
      </ConsolePage>
    );
  }
  return (
    <ConsolePage title="Register an app">
      <Card title="What will happen">
        <ChangeForm
          effects={[
            "Once you confirm, people can sign in to the app with their accounts, only at its origins.",
            "It can do what its scopes and its users’ permissions allow. Its secret is shown once, on the next page.",
          ]}
          confirm={{ text: "the app’s name once more", what: "the technical name above" }}
          failed={failed}
          submit="Register app"
          cancelTo="/admin/apps"
        >
          <Field
            name="name"
            label="Technical name"
            hint="2 to 40 of a–z, 0–9 and -. It never changes."
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            required
            defaultValue={failed?.typed.name}
            error={failed?.fields.name?.[0]}
          />
          <Select name="kind" label="Type" defaultValue={failed?.typed.kind ?? "internal"}>
            <option value="internal">Internal (first-party)</option>
            <option value="external">External (third-party)</option>
          </Select>
          <AppFields app={{ displayName: "", origins: [], scopes: ["profile"], logoutUrl: null }} failed={failed} />
        </ChangeForm>
      </Card>
    </ConsolePage>
  );
}
