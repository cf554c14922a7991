import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { changePassword, changePasswordSchema, hasPassword } from "../../session/change-password.ts";
import { requireFreshUser } from "../../session/user.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { Field, NewPasswordField, PasswordField } from "../../ui/field.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `${data?.exists === false ? "Set password" : "Change password"}`,
);

/**
 * Admits sessions that must replace their password, because `/reset-password` redirects here if the identity backend
 * requires more than the new password.
 */
const replacementAdmission = { replacesPassword: true };

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id, email } = await requireFreshUser(context, request, replacementAdmission);
  return { email, exists: await hasPassword(context, id) };
}

/** Changes the password, or sets the account's first one. */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request, replacementAdmission);
  const form = await readForm(request, context);
  const submission = parseWithZod(form, { schema: changePasswordSchema });
  const hideFields = ["password", "currentPassword"];
  // Keeps asking for the same proof until it is right.
  const confirmationField = form.has("code") ? "code" : form.has("currentPassword") ? "currentPassword" : null;
  if (submission.status !== "success") {
    return data({ result: submission.reply({ hideFields }), ask: confirmationField }, { status: 400 });
  }
  const first = !(await hasPassword(context, user.id));
  const outcome = await changePassword(context, { ...submission.value, user, first });
  if (outcome.status === "refused") {
    const { httpStatus, formErrors, fieldErrors, ask } = outcome;
    const result = submission.reply({
      hideFields,
      ...(formErrors ? { formErrors } : {}),
      ...(fieldErrors ? { fieldErrors } : {}),
    });
    return data({ result, ask: ask ?? confirmationField }, { status: httpStatus });
  }
  leaveNotice(context, { card: "password", done: first ? "added" : "changed" });
  throw redirect("/settings/security#password", 303);
}

export default function ChangePasswordPage() {
  const { email, exists } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const [form, { password, currentPassword, code }] = useForm<{
    password: string;
    currentPassword: string;
    code: string;
  }>({ id: "change-password", lastResult: answer?.result });
  const title = exists ? "Change password" : "Set password";
  return (
    <Page title={title}>
      <Card
        title="New password"
        lead={
          <>
            You’ll use it to sign in as <strong className="font-semibold text-ink">{email}</strong>. You’ll be signed
            out on all other devices, and we’ll notify you by email.
          </>
        }
      >
        <div className="max-w-100 space-y-5">
          <ErrorSummary
            id={form.errorId}
            form={form.errors}
            fields={fieldErrors({ currentPassword, password, code })}
          />
          <AccountForm id={form.id} noValidate className="space-y-5">
            {/* Password managers save the new password under this name. */}
            <input type="text" autoComplete="username" value={email} readOnly hidden />
            {answer?.ask === "currentPassword" ? (
              <PasswordField field={currentPassword} label="Current password" autoComplete="current-password" />
            ) : null}
            <NewPasswordField field={password} label="New password" />
            {answer?.ask === "code" ? (
              <Field
                field={code}
                label="Code from the email"
                hint={`We sent it to ${email}.`}
                autoComplete="one-time-code"
                inputMode="numeric"
                required
              />
            ) : null}
            <div className="flex flex-wrap gap-3">
              <Button>{title}</Button>
              <ButtonLink href="/settings/security#password">Cancel</ButtonLink>
            </div>
          </AccountForm>
        </div>
      </Card>
    </Page>
  );
}
