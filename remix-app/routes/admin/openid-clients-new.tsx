import { useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { AppSecret } from "../../admin/app-fields.tsx";
import { scopesOf } from "../../admin/apps.ts";
import { keptChange, refused, unreadable } from "../../admin/change-answer.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { OpenidClientFields } from "../../admin/openid-client-fields.tsx";
import { addOpenidClient, newClientSchema } from "../../admin/openid-clients.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Field, Select } from "../../ui/field.tsx";

export const meta = pageTitle("Register an OpenID client · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id } = await requireInfrastructureAdmin(context, request);
  return { kept: keptChange(context, { request, admin: { id } }) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const form = await readForm(request, context);
  const isPublic = form.get("type") === "public";
  const asked = newClientSchema({ isPublic }).safeParse(Object.fromEntries(form));
  if (!asked.success) return data({ made: null, failed: unreadable(asked.error, form) }, { status: 400 });
  const { confirmation, ...client } = asked.data;
  if (confirmation !== client.name) {
    const failed = refused({ message: "The client IDs don’t match. Nothing was registered." }, form);
    return data({ made: null, failed }, { status: 400 });
  }
  const done = await addOpenidClient(context, { ...client, isPublic, admin, scopes: scopesOf(form) });
  if (done.outcome === "refused") return data({ made: null, failed: refused(done, form) }, { status: done.status });
  if (done.secret === null) throw redirect(`/admin/openid-clients/${client.name}?done`, 303);
  const made = { name: client.name, secret: done.secret };
  return data({ made, failed: undefined }, { headers: { "Cache-Control": "private, no-store" } });
}

const empty = {
  displayName: "",
  redirectUris: [],
  postLogoutRedirectUris: [],
  logoutUrl: null,
  allowsDeviceGrant: false,
  scopes: ["profile"],
};

export default function ConsoleNewOpenidClientPage() {
  const { kept } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? kept;
  if (answer?.made) {
    return (
      <ConsolePage title="OpenID client registered" lead={answer.made.name}>
        <AppSecret {...answer.made} page={`/admin/openid-clients/${answer.made.name}`} />
      </ConsolePage>
    );
  }
  return (
    <ConsolePage title="Register an OpenID client">
      <Card title="What will happen">
        <ChangeForm
          effects={[
            "Once you confirm, people can sign in to the client with their accounts, after they agree to its scopes.",
            "A confidential client’s secret is shown once, on the next page. A public client has none.",
          ]}
          confirm={{ text: "the client ID once more", what: "the client ID above" }}
          failed={failed}
          submit="Register client"
          cancelTo="/admin/apps"
        >
          <Field
            name="name"
            label="Client ID"
            hint="2 to 40 of a–z, 0–9 and -. It never changes."
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            required
            defaultValue={failed?.typed.name}
            error={failed?.fields.name?.[0]}
          />
          <Select name="type" label="Type" defaultValue={failed?.typed.type ?? "confidential"}>
            <option value="confidential">Confidential: a server that keeps a secret</option>
            <option value="public">Public: a browser, mobile or command-line app</option>
          </Select>
          <OpenidClientFields client={empty} failed={failed} />
        </ChangeForm>
      </Card>
    </ConsolePage>
  );
}
