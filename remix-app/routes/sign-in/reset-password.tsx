import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { listAccess, listPreselectedKeys } from "../../session/account-access.ts";
import { changePassword, hasPassword } from "../../session/change-password.ts";
import { resetPasswordSchema } from "../../session/credentials.ts";
import { requireFreshUser } from "../../session/user.ts";
import { AccessForm } from "../../settings/access-form.tsx";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { NewPasswordField } from "../../ui/field.tsx";
import { SignOutForm } from "../../ui/other-ways.tsx";

export const meta = pageTitle("Choose a new password");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { email, mustReplacePassword } = await requireFreshUser(context, request, { replacesPassword: true });
  const { searchParams } = new URL(request.url);
  const returnUrl = redirectTarget(searchParams.get("returnUrl"), { context, fallback: "/" });
  return { email, returnUrl, first: searchParams.has("first"), listed: mustReplacePassword };
}

/** Changes the password. The identity backend then ends the account's other sessions. */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request, { replacesPassword: true });
  const submission = parseWithZod(await readForm(request, context), { schema: resetPasswordSchema });
  if (submission.status !== "success") {
    return data({ result: submission.reply({ hideFields: ["password"] }), review: null }, { status: 400 });
  }
  // A person without a password may request the reset email too, so this may be the account's first password.
  const first = !(await hasPassword(context, user.id));
  const outcome = await changePassword(context, { ...submission.value, user, first });
  if (outcome.status === "changed") {
    const access = await listAccess(context, user);
    const selected = listPreselectedKeys(context, { access, user });
    const result = submission.reply({ hideFields: ["password"] });
    return data({ result, review: { access, selected, currentSessionId: user.sessionId } });
  }
  const { httpStatus, formErrors, fieldErrors, ask } = outcome;
  // The backend asks for more proof only in sessions that did not come from an email. The settings page has a field for
  // the proof.
  if (ask) throw redirect("/settings/security/password");
  const result = submission.reply({
    hideFields: ["password"],
    ...(formErrors ? { formErrors } : {}),
    ...(fieldErrors ? { fieldErrors } : {}),
  });
  return data({ result, review: null }, { status: httpStatus });
}

export default function ResetPasswordPage() {
  const { email, returnUrl, first, listed } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const [form, { password }] = useForm<{ password: string }>({ id: "reset-password", lastResult: answer?.result });
  if (answer?.review) {
    return (
      <EntryPage title="Password changed" lead="All other devices and apps have been signed out.">
        <h2 className="font-semibold text-large">Review account access</h2>
        <AccessForm {...answer.review} returnUrl={returnUrl} />
        <p>
          <a href={returnUrl} className="link">
            Continue without reviewing
          </a>
        </p>
      </EntryPage>
    );
  }
  return (
    <EntryPage
      title={first ? "Choose your password" : "Choose a new password"}
      lead={
        first
          ? "Your email is confirmed. We couldn’t tell whether it was you who set this account’s password, so the old password no longer works."
          : listed
            ? "Your password is too common, or too similar to your name or email. Choose another one to continue."
            : undefined
      }
    >
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ password })} />
      <p>
        This changes the password for <strong className="font-semibold">{email}</strong> and signs you out on all other
        devices.
      </p>
      <AccountForm id={form.id} noValidate className="space-y-5">
        {/* Password managers save the new password under this name. */}
        <input type="text" autoComplete="username" value={email} readOnly hidden />
        <NewPasswordField field={password} label="New password" />
        <Button className="w-full">Change password</Button>
      </AccountForm>
      {listed ? <SignOutForm /> : null}
    </EntryPage>
  );
}
