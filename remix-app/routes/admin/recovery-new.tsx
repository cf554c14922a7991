import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeField, ChangeTick } from "../../admin/change-fields.tsx";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import {
  createOverride,
  defaultLifetimeDays,
  getRecoveryRestriction,
  overrideSchema,
  requireRecoveryEmail,
} from "../../admin/recovery.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { Select } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Create override · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const email = requireRecoveryEmail(context, request);
  const restored = restoreChange(context, { request, admin });
  return { email, lock: getRecoveryRestriction(admin, email), days: defaultLifetimeDays, restored };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const email = requireRecoveryEmail(context, request);
  const formSchema = z.record(z.string(), z.unknown()).transform(
    ({ lifetimeDays, ...fields }): Record<string, unknown> => ({
      ...fields,
      lifetimeDays: fields.validity === "first_use" ? undefined : lifetimeDays,
      normalLogin: "normalLogin" in fields,
      recoveryEmail: "recoveryEmail" in fields,
      email,
    }),
  );
  return answerChange(context, {
    request,
    schema: formSchema.pipe(overrideSchema),
    change: (change) => createOverride(context, { ...change, admin }),
    to: () => `/admin/recovery?${new URLSearchParams({ email, done: "new" })}`,
  });
}

export default function ConsoleNewOverridePage() {
  const { email, lock, days, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
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
              "The override ends by itself, and you can revoke it at any time. Everything done with it is recorded.",
            ]}
            failed={failed}
            submit="Create override"
            cancelTo={`/admin/recovery?${new URLSearchParams({ email })}`}
          >
            <ChangeTick
              name="normalLogin"
              label="Password sign-in"
              hint="They can sign in despite these blocks, with their password and the usual bot check."
              value
              failed={failed}
            />
            <ChangeTick
              name="recoveryEmail"
              label="Recovery email"
              hint="You can send them a link and a code. Either one signs them in once, without their password."
              value
              failed={failed}
            />
            <Select
              name="validity"
              label="Valid"
              hint="“Until first used” ends with the first sign-in or use of a recovery email, and after 30 days at the latest."
              defaultValue={failed?.typed.validity ?? "days"}
              error={failed?.fields.validity?.[0]}
            >
              <option value="days">For a number of days</option>
              <option value="first_use">Until first used</option>
            </Select>
            <ChangeField
              name="lifetimeDays"
              label="Valid for (days)"
              hint="1 to 30. Ignored with “Until first used”."
              inputMode="numeric"
              value={days}
              failed={failed}
            />
          </ChangeForm>
        )}
      </Panel>
    </Page>
  );
}
