import { useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { AppSecret } from "../../admin/app-fields.tsx";
import { scopesOf } from "../../admin/apps.ts";
import { keptChange, refused, unreadable } from "../../admin/change-answer.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { confirms } from "../../admin/console-change.ts";
import { OpenidClientFields } from "../../admin/openid-client-fields.tsx";
import { clientSteps } from "../../admin/openid-client-steps.ts";
import {
  type ClientStep,
  changeOpenidClient,
  clientChangeSchema,
  requireOpenidClient,
} from "../../admin/openid-clients.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Select } from "../../ui/field.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data ? clientSteps[data.step].title : "Client"} · Console`);

async function requireStep({ request, params, context }: Pick<LoaderFunctionArgs, "request" | "params" | "context">) {
  const admin = await requireInfrastructureAdmin(context, request);
  const client = await requireOpenidClient(context, params.name);
  const step = params.step ?? "";
  const isKnown = Object.hasOwn(clientSteps, step) && !(step === "rotate" && client.isPublic);
  if (!isKnown) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { admin, step: step as ClientStep, client };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, client } = await requireStep(args);
  return { step, client, kept: keptChange(args.context, { request: args.request, admin }) };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, client } = await requireStep(args);
  const form = await readForm(args.request, args.context);
  const asked = clientChangeSchema(step, client).safeParse(Object.fromEntries(form));
  if (!asked.success) return data({ secret: null, failed: unreadable(asked.error, form) }, { status: 400 });
  const { confirmation, version, ...change } = asked.data;
  if (!confirms(confirmation, client.name)) {
    const message = "That isn’t the client ID. Nothing was changed.";
    return data({ secret: null, failed: refused({ message, field: "confirmation" }, form) }, { status: 400 });
  }
  const scopes = step === "edit" ? { scopes: scopesOf(form) } : {};
  const asks = { ...change, ...scopes, admin, name: client.name, step, version: version || null };
  const done = await changeOpenidClient(args.context, asks);
  if (done.outcome === "refused") return data({ secret: null, failed: refused(done, form) }, { status: done.status });
  if (done.secret === null) throw redirect(`/admin/openid-clients/${client.name}?done`, 303);
  return data({ secret: done.secret, failed: undefined }, { headers: { "Cache-Control": "private, no-store" } });
}

export default function ConsoleOpenidClientChangePage() {
  const { step, client, kept } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? kept;
  const { title, effects } = clientSteps[step];
  const page = `/admin/openid-clients/${client.name}`;
  return (
    <ConsolePage title={title} lead={`${client.displayName} (${client.name})`}>
      {answer?.secret ? (
        <AppSecret name={client.name} secret={answer.secret} page={page} />
      ) : (
        <Card title="What will happen">
          <ChangeForm
            effects={effects(client)}
            confirm={{ text: client.name, what: "the client ID" }}
            failed={failed}
            submit={title}
            cancelTo={page}
            hidden={{ version: client.version ?? "" }}
          >
            {step === "edit" ? <OpenidClientFields client={client} failed={failed} /> : null}
            {step === "rotate" ? (
              <Select name="overlapSeconds" label="Current secret" defaultValue="3600">
                <option value="0">Stops working immediately</option>
                <option value="3600">Works for 1 more hour</option>
                <option value="86400">Works for 24 more hours</option>
              </Select>
            ) : null}
          </ChangeForm>
        </Card>
      )}
    </ConsolePage>
  );
}
