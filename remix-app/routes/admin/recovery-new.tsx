import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { ChangeForm } from "../../admin/change-form.tsx";
import { failWithErrors, failWithRefusal, restoreChange } from "../../admin/failed-change.ts";
import {
  createOverride,
  defaultLifetimeDays,
  overrideSchema,
  recoveryLock,
  requireRecoveryEmail,
} from "../../admin/recovery.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { CheckBox, Field } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Create override · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const email = requireRecoveryEmail(context, request);
  const restored = restoreChange(context, { request, admin });
  return { email, lock: recoveryLock(admin, email), days: defaultLifetimeDays, restored };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const email = requireRecoveryEmail(context, request);
  const form = await readForm(request, context);
  const switches = { normalLogin: form.has("normalLogin"), recoveryEmail: form.has("recoveryEmail") };
  const parsed = overrideSchema.safeParse({ ...Object.fromEntries(form), ...switches, email });
  if (!parsed.success) return data(failWithErrors(parsed.error, form), { status: 400 });
  const done = await createOverride(context, { ...parsed.data, admin });
  if (done.outcome === "refused") return data(failWithRefusal(done, form), { status: done.status });
  throw redirect(`/admin/recovery?${new URLSearchParams({ email, done: "new" })}`, 303);
}

export default function ConsoleNewOverridePage() {
  const { email, lock, days, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  const isOn = (name: string) => failed === undefined || name in failed.typed;
  return (
    <Page title="Create override" lead={email}>
      <Panel>
        {lock ? (
          <Notice>{lock}</Notice>
        ) : (
          <ChangeForm
            effects={[
              `Once you confirm, blocks on ${email} no longer apply: bans, an unconfirmed email, and limits on attempts for this email.`,
              "MFA is still required, and blocked IP addresses stay blocked.",
              "The override expires by itself, and you can revoke it at any time. Everything done with it is recorded.",
            ]}
            confirm={{ text: email, what: "the email that the override is for" }}
            failed={failed}
            submit="Create override"
            cancelTo={`/admin/recovery?${new URLSearchParams({ email })}`}
          >
            <CheckBox
              name="normalLogin"
              label="Password sign-in"
              hint="They can sign in despite these blocks, with their password and the usual bot check."
              defaultChecked={isOn("normalLogin")}
            />
            <CheckBox
              name="recoveryEmail"
              label="Recovery email"
              hint="You can send them a link and a code. Either one signs them in once, without their password."
              defaultChecked={isOn("recoveryEmail")}
            />
            <Field
              name="lifetimeDays"
              label="Valid for (days)"
              hint="1 to 30."
              inputMode="numeric"
              autoComplete="off"
              defaultValue={failed?.typed.lifetimeDays ?? days}
              error={failed?.fields.lifetimeDays?.[0]}
            />
          </ChangeForm>
        )}
      </Panel>
    </Page>
  );
}
