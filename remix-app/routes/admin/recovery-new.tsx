import { useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { keptChange, refused, unreadable } from "../../admin/change-answer.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
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
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { CheckBox, Field } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Make an override · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const email = requireRecoveryEmail(context, request);
  const kept = keptChange(context, { request, admin });
  return { email, lock: recoveryLock(admin, email), days: defaultLifetimeDays, kept };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const email = requireRecoveryEmail(context, request);
  const form = await readForm(request, context);
  const switches = { normalLogin: form.has("normalLogin"), recoveryEmail: form.has("recoveryEmail") };
  const asked = overrideSchema.safeParse({ ...Object.fromEntries(form), ...switches, email });
  if (!asked.success) return data(unreadable(asked.error, form), { status: 400 });
  const done = await createOverride(context, { ...asked.data, admin });
  if (done.outcome === "refused") return data(refused(done, form), { status: done.status });
  throw redirect(`/admin/recovery?${new URLSearchParams({ email, done: "new" })}`, 303);
}

export default function ConsoleNewOverridePage() {
  const { email, lock, days, kept } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? kept;
  const isOn = (name: string) => failed === undefined || name in failed.typed;
  return (
    <ConsolePage title="Make an override" lead={email}>
      <Card title="What will happen">
        {lock ? (
          <Notice>{lock}</Notice>
        ) : (
          <ChangeForm
            effects={[
              `From the moment you confirm, what blocks ${email} alone blocks it no more: bans, an email that is not confirmed, and limits on attempts by email.`,
              "The password, bot challenges, blocks of addresses and the second factor are asked for as before.",
              "It ends by itself, and you can revoke it at any time. Everything done under it is recorded.",
            ]}
            confirm={{ text: email, what: "the email that you override" }}
            failed={failed}
            submit="Make override"
            cancelTo={`/admin/recovery?${new URLSearchParams({ email })}`}
          >
            <CheckBox
              name="normalLogin"
              label="Normal login"
              hint="They sign in with their password, past the blocks."
              defaultChecked={isOn("normalLogin")}
            />
            <CheckBox
              name="recoveryEmail"
              label="Recovery email"
              hint="You may send them a link and a code that sign in once."
              defaultChecked={isOn("recoveryEmail")}
            />
            <Field
              name="lifetimeDays"
              label="Days that it holds"
              hint="1 to 30."
              inputMode="numeric"
              autoComplete="off"
              defaultValue={failed?.typed.lifetimeDays ?? days}
              error={failed?.fields.lifetimeDays?.[0]}
            />
          </ChangeForm>
        )}
      </Card>
    </ConsolePage>
  );
}
