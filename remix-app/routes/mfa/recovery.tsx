import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { toFormErrors } from "../../http/field-error.ts";
import { readForm } from "../../http/form.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import { requireSecondStepUser } from "../../mfa/open-step.ts";
import { recoverWithCode, signInWithRecoveryCode } from "../../mfa/recover.ts";
import { recoverySchema, recoveryState } from "../../mfa/recovery-codes.ts";
import { getUserLabel, requireBrowser, secondStepPath } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { SignOutForm } from "../../ui/other-ways.tsx";

export const meta = pageTitle("Use a recovery code");

/** Opens the second step for people who have lost their authenticator apps or have not finished removing them. */
async function openRecovery(context: AppLoadContext, request: Request) {
  const { user, destination } = await requireSecondStepUser(context, { request });
  if (user.mfa.satisfied) throw redirect(destination);
  const state = await recoveryState(context, user);
  if (!user.mfa.enrolled && !state.unfinished) throw redirect(secondStepPath(user.mfa, destination));
  return { user, destination, ...state };
}

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, destination, left, unfinished } = await openRecovery(context, request);
  return { email: getUserLabel(user), left, unfinished, challengePath: addReturnUrl("/mfa", destination) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, destination } = await openRecovery(context, request);
  const form = await readForm(request, context);
  // Until 0.5.0: pages of servers of release 0.3.0 post `code`, which removes the authenticators.
  const code = form.get("code");
  if (code !== null) form.set("recoveryCode", code);
  const submission = parseWithZod(form, { schema: recoverySchema });
  if (submission.status !== "success") return data(submission.reply(), { status: 400 });
  const { recoveryCode = null, intent } = submission.value;
  if (intent === "once" && recoveryCode !== null && user.mfa.enrolled) {
    const signIn = await signInWithRecoveryCode(context, { user, claims: requireBrowser(context), code: recoveryCode });
    if (signIn.outcome === "signed_in") throw redirect(destination);
    return data(submission.reply(toFormErrors("recoveryCode", signIn)), { status: signIn.status });
  }
  const recovery = await recoverWithCode(context, { user, code: recoveryCode });
  if (recovery.outcome === "recovered") {
    throw redirect(`/mfa/enroll?${new URLSearchParams({ recovered: "", returnUrl: destination })}`);
  }
  return data(submission.reply(toFormErrors("recoveryCode", recovery)), { status: recovery.status });
}

export default function RecoveryPage() {
  const { email, left, unfinished, challengePath } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { recoveryCode }] = useForm<{ recoveryCode: string }>({ id: "recovery", lastResult });
  const summary = <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ recoveryCode })} />;
  const back = (
    <p>
      <a className="link" href={challengePath}>
        Use a code from your authenticator app instead
      </a>
    </p>
  );
  if (unfinished) {
    return (
      <EntryPage
        title="Finish removing your authenticator apps"
        lead="Your recovery code was accepted. You don’t need another one."
      >
        {summary}
        <AccountForm id={form.id}>
          <input type="hidden" name="finish" value="yes" />
          <Button className="w-full">Finish</Button>
        </AccountForm>
        <SignOutForm />
      </EntryPage>
    );
  }
  if (left === 0) {
    return (
      <EntryPage title="Use a recovery code">
        <Notice tone="warn">
          You’ve used all your recovery codes. Ask your administrator to reset your authenticator apps.
        </Notice>
        {back}
        <SignOutForm />
      </EntryPage>
    );
  }
  return (
    <EntryPage
      title="Use a recovery code"
      lead="Each code works once. Sign in once if your app will be back, or remove it and add a new one."
    >
      {summary}
      <AccountForm id={form.id} noValidate className="space-y-5">
        <p>
          Signing in as <strong className="font-semibold">{email}</strong>.
        </p>
        <Field
          field={recoveryCode}
          label="Recovery code"
          hint="16 letters and digits."
          type="text"
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          required
        />
        <div className="space-y-1.5">
          <Button name="intent" value="once" className="w-full">
            Sign in once
          </Button>
          <p className="text-muted text-small">
            For this browser, up to 12 hours. Your authenticator apps stay, and security settings still ask for a code
            from them.
          </p>
        </div>
        <div className="space-y-1.5">
          <Button variant="danger" name="intent" value="replace" className="w-full">
            Remove authenticator apps
          </Button>
          <p className="text-muted text-small">
            Removes all of them and signs out your other devices. Then you’ll add a new app.
          </p>
        </div>
      </AccountForm>
      <p className="text-muted">Don’t have a code? Ask your administrator to reset your authenticator apps.</p>
      {back}
      <SignOutForm />
    </EntryPage>
  );
}
