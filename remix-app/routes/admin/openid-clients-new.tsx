import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { NameField, OpenidClientFields } from "../../admin/app-fields.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { changeOpenidClient, newClientSchema } from "../../admin/openid-clients.ts";
import { answerRegistryForm } from "../../admin/registry.ts";
import { RegistryFormPage } from "../../admin/registry-pages.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { uriFormLimits } from "../../openid/client-uris.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Select } from "../../ui/field.tsx";

export const meta = pageTitle("Register OpenID client · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id } = await requireInfrastructureAdmin(context, request);
  return { restored: restoreChange(context, { request, admin: { id } }) };
}

const pages = "/admin/openid-clients";

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const form = await readForm(request, context, uriFormLimits);
  const isPublic = form.get("type") === "public";
  const schema = newClientSchema({ isPublic, platform: context.env.BRAND_NAME });
  const options = { form, admin, step: "add", isPublic, schema, pages, change: changeOpenidClient } as const;
  return answerRegistryForm(context, options);
}

const emptyClient = {
  displayName: "",
  redirectUris: [],
  postLogoutRedirectUris: [],
  logoutUrl: null,
  allowsDeviceGrant: false,
  requiresPkce: true,
  claimsInIdToken: false,
  groupsWorkspaceId: null,
  scopes: ["profile"],
};

export default function ConsoleNewOpenidClientPage() {
  const { restored } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? restored;
  return (
    <RegistryFormPage
      title="Register OpenID client"
      createdTitle="OpenID client registered"
      created={answer?.created}
      pages={pages}
      effects={[
        "Once you confirm, people can sign in to the client with their accounts, after they agree to its scopes.",
        "A confidential client’s secret is shown once, on the next page. A public client has none.",
      ]}
      failed={failed}
      submit="Register client"
      cancelTo="/admin/apps"
    >
      <NameField label="Client ID" failed={failed} />
      <Select name="type" label="Type" defaultValue={failed?.typed.type ?? "confidential"}>
        <option value="confidential">Confidential: a server that keeps a secret</option>
        <option value="public">Public: a browser, mobile or command-line app</option>
      </Select>
      <OpenidClientFields client={emptyClient} failed={failed} />
    </RegistryFormPage>
  );
}
