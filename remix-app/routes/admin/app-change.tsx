import { useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { AppFields, AppSecret } from "../../admin/app-fields.tsx";
import { appSteps } from "../../admin/app-steps.ts";
import { type AppStep, appChangeSchema, changeApp, requireApp, scopesOf } from "../../admin/apps.ts";
import { keptChange, refused, unreadable } from "../../admin/change-answer.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { confirms } from "../../admin/console-change.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Field, Select } from "../../ui/field.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data ? appSteps[data.step].title : "App"} · Console`);

async function requireStep({ request, params, context }: Pick<LoaderFunctionArgs, "request" | "params" | "context">) {
  const admin = await requireInfrastructureAdmin(context, request);
  const step = params.step ?? "";
  if (!Object.hasOwn(appSteps, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { admin, step: step as AppStep, app: await requireApp(context, params.name) };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, app } = await requireStep(args);
  const workspace = new URL(args.request.url).searchParams.get("workspace") ?? "";
  const kept = keptChange(args.context, { request: args.request, admin });
  return { step, app, workspace, kept };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, app } = await requireStep(args);
  const form = await readForm(args.request, args.context);
  const asked = appChangeSchema(step).safeParse(Object.fromEntries(form));
  if (!asked.success) return data({ secret: null, failed: unreadable(asked.error, form) }, { status: 400 });
  const { confirmation, version, ...change } = asked.data;
  if (!confirms(confirmation, app.name)) {
    const message = "That isn’t the app’s name. Nothing was changed.";
    const failed = refused({ message, field: "confirmation" }, form);
    return data({ secret: null, failed }, { status: 400 });
  }
  const scopes = step === "edit" ? { scopes: scopesOf(form) } : {};
  const asks = { ...change, ...scopes, admin, name: app.name, step, version: version || null };
  const done = await changeApp(args.context, asks);
  if (done.outcome === "refused") return data({ secret: null, failed: refused(done, form) }, { status: done.status });
  if (done.secret === null) throw redirect(`/admin/apps/${app.name}?done`, 303);
  return data({ secret: done.secret, failed: undefined }, { headers: { "Cache-Control": "private, no-store" } });
}

export default function ConsoleAppChangePage() {
  const { step, app, workspace, kept } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? kept;
  const { title, effects } = appSteps[step];
  return (
    <ConsolePage title={title} lead={`${app.displayName} (${app.name})`}>
      {answer?.secret ? (
        <AppSecret name={app.name} secret={answer.secret} />
      ) : (
        <Card title="What will happen">
          <ChangeForm
            effects={effects(app)}
            confirm={{ text: app.name, what: "the app’s technical name" }}
            failed={failed}
            submit={title}
            danger={step === "disable" || step === "rotate" || step === "unlink"}
            cancelTo={`/admin/apps/${app.name}`}
            hidden={{ version: app.version ?? "" }}
          >
            {step === "edit" ? <AppFields app={app} failed={failed} /> : null}
            {step === "rotate" ? (
              <Select name="overlapSeconds" label="Current secret" defaultValue="3600">
                <option value="0">Stops working immediately</option>
                <option value="3600">Works for 1 more hour</option>
                <option value="86400">Works for 24 more hours</option>
              </Select>
            ) : null}
            {step === "link" || step === "unlink" ? (
              <Field
                name="workspace"
                label="Workspace ID"
                autoComplete="off"
                autoCapitalize="none"
                spellCheck={false}
                required
                defaultValue={failed?.typed.workspace ?? workspace}
                error={failed?.fields.workspace?.[0]}
              />
            ) : null}
          </ChangeForm>
        </Card>
      )}
    </ConsolePage>
  );
}
