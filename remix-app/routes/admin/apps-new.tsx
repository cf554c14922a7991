import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { AppFields, NameField } from "../../admin/app-fields.tsx";
import { changeApp, newAppSchema } from "../../admin/apps.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import { answerRegistryForm } from "../../admin/registry.ts";
import { RegistryFormPage } from "../../admin/registry-pages.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Select } from "../../ui/field.tsx";

export const meta = pageTitle("Register app · Console");

const pages = "/admin/apps";

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id } = await requireInfrastructureAdmin(context, request);
  return { restored: restoreChange(context, { request, admin: { id } }) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const form = await readForm(request, context);
  return answerRegistryForm(context, { form, admin, step: "add", schema: newAppSchema, pages, change: changeApp });
}

export default function ConsoleNewAppPage() {
  const { restored } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? restored;
  return (
    <RegistryFormPage
      title="Register app"
      createdTitle="App registered"
      created={answer?.created}
      pages={pages}
      effects={[
        "Once you confirm, people can sign in to the app with their accounts, only at its origins.",
        "It can do what its scopes and its users’ permissions allow. Its secret is shown once, on the next page.",
      ]}
      failed={failed}
      submit="Register app"
      cancelTo={pages}
    >
      <NameField label="Technical name" failed={failed} />
      <Select name="kind" label="Type" defaultValue={failed?.typed.kind ?? "internal"}>
        <option value="internal">Internal (first-party)</option>
        <option value="external">External (third-party)</option>
      </Select>
      <AppFields app={{ displayName: "", origins: [], scopes: ["profile"], logoutUrl: null }} failed={failed} />
    </RegistryFormPage>
  );
}
