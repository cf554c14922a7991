import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { AppFields, OverlapField } from "../../admin/app-fields.tsx";
import { appSteps } from "../../admin/app-steps.ts";
import { type AppStep, appChangeSchema, changeApp, type RegisteredApp, requireApp } from "../../admin/apps.ts";
import { ChangeField } from "../../admin/change-fields.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { answerRegistryForm } from "../../admin/registry.ts";
import { RegistryFormPage } from "../../admin/registry-pages.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";

export const meta = pageTitle<typeof loader>((data) => `${data ? appSteps[data.step].title : "App"} · Console`);

const appsPath = "/admin/apps";

async function requireStep({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const step = params.step ?? "";
  if (!Object.hasOwn(appSteps, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { admin, step: step as AppStep, app: await requireApp(context, params.name) };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, app } = await requireStep(args);
  const workspace = new URL(args.request.url).searchParams.get("workspace") ?? "";
  const restored = restoreChange(args.context, { request: args.request, admin });
  return { step, app, workspace, restored };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, app } = await requireStep(args);
  const form = await readForm(args.request, args.context);
  return answerRegistryForm(args.context, {
    form,
    admin,
    step,
    name: app.name,
    schema: appChangeSchema(step),
    destroys: confirmationOf(step, { app, typed: Object.fromEntries(form) }),
    pages: appsPath,
    change: changeApp,
  });
}

function confirmationOf(
  step: AppStep,
  { app, typed }: { app: RegisteredApp; typed: Record<string, unknown> | undefined },
) {
  return appSteps[step].destroys?.(app, typed) ? { text: app.name, what: "the app’s technical name" } : null;
}

export default function ConsoleAppChangePage() {
  const { step, app, workspace, restored } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const failed = answer?.failed ?? restored;
  const { title, effects } = appSteps[step];
  return (
    <RegistryFormPage
      title={title}
      lead={`${app.displayName} (${app.name})`}
      created={answer?.created}
      pages={appsPath}
      effects={effects(app)}
      destroys={confirmationOf(step, { app, typed: failed?.typed })}
      failed={failed}
      submit={step === "edit" ? "Save changes" : title}
      cancelTo={`${appsPath}/${app.name}`}
      hidden={{ version: app.version ?? "" }}
    >
      {step === "edit" ? <AppFields app={app} failed={failed} /> : null}
      {step === "rotate" ? <OverlapField failed={failed} /> : null}
      {step === "link" || step === "unlink" ? (
        <ChangeField
          name="workspace"
          label="Workspace ID"
          autoCapitalize="none"
          spellCheck={false}
          required
          value={workspace}
          failed={failed}
        />
      ) : null}
    </RegistryFormPage>
  );
}
