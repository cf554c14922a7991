import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { OpenidClientFields, OverlapField } from "../../admin/app-fields.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { clientSteps } from "../../admin/openid-client-steps.ts";
import {
  type ClientStep,
  changeOpenidClient,
  clientChangeSchema,
  type RegisteredClient,
  requireOpenidClient,
} from "../../admin/openid-clients.ts";
import { answerRegistryForm } from "../../admin/registry.ts";
import { RegistryFormPage } from "../../admin/registry-pages.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { uriFormLimits } from "../../openid/client-uris.ts";
import { pageTitle } from "../../ui/brand.ts";

export const meta = pageTitle<typeof loader>((data) => `${data ? clientSteps[data.step].title : "Client"} · Console`);

const pages = "/admin/openid-clients";

async function requireStep({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const client = await requireOpenidClient(context, params.name);
  const step = params.step ?? "";
  const isKnown = Object.hasOwn(clientSteps, step) && !(step === "rotate" && client.isPublic);
  if (!isKnown) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { admin, step: step as ClientStep, client };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, client } = await requireStep(args);
  return { step, client, restored: restoreChange(args.context, { request: args.request, admin }) };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, client } = await requireStep(args);
  const form = await readForm(args.request, args.context, uriFormLimits);
  return answerRegistryForm(args.context, {
    form,
    admin,
    step,
    name: client.name,
    schema: clientChangeSchema(step, { ...client, platform: args.context.env.BRAND_NAME }),
    destroys: confirmationOf(step, { client, typed: Object.fromEntries(form) }),
    pages,
    change: changeOpenidClient,
  });
}

function confirmationOf(
  step: ClientStep,
  { client, typed }: { client: RegisteredClient; typed: Record<string, unknown> | undefined },
) {
  return clientSteps[step].destroys?.(client, typed) ? { text: client.name, what: "the client ID" } : null;
}

export default function ConsoleOpenidClientChangePage() {
  const { step, client, restored } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? restored;
  const { title, effects } = clientSteps[step];
  return (
    <RegistryFormPage
      title={title}
      lead={`${client.displayName} (${client.name})`}
      created={answer?.created}
      pages={pages}
      effects={effects(client)}
      destroys={confirmationOf(step, { client, typed: failed?.typed })}
      failed={failed}
      submit={step === "edit" ? "Save changes" : title}
      cancelTo={`${pages}/${client.name}`}
      hidden={{ version: client.version ?? "" }}
    >
      {step === "edit" ? <OpenidClientFields client={client} isPublic={client.isPublic} failed={failed} /> : null}
      {step === "rotate" ? <OverlapField failed={failed} /> : null}
    </RegistryFormPage>
  );
}
