import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { botChallengeField, showBotChallenge } from "../../abuse/bot-challenge.ts";
import { toFormErrors } from "../../http/field-error.ts";
import { readForm } from "../../http/form.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import { listAuthenticators } from "../../mfa/authenticators.ts";
import { challengeSchema } from "../../mfa/code-schema.ts";
import { openStepUp } from "../../mfa/open-step.ts";
import { securityPath } from "../../mfa/security-path.ts";
import { getReauthenticationMethods, signInAgain, signInAgainSchema } from "../../mfa/sign-in-again.ts";
import { stepUpPurpose } from "../../mfa/step-up-purpose.ts";
import { verifyCode } from "../../mfa/verify-code.ts";
import { allowProviderPages } from "../../oauth/begin-oauth.ts";
import { readOpenidSignIn } from "../../openid/sign-in-target.ts";
import { PasskeySignIn } from "../../passkeys/passkey-sign-in.tsx";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { SignInAgain } from "../../session/sign-in-again.tsx";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { CodeFields } from "../../ui/code-fields.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { SignOutForm } from "../../ui/other-ways.tsx";

export const meta = pageTitle("Confirm it’s you");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, destination } = await openStepUp(context, request);
  const back = /^\/(settings|mfa)\//.test(destination) ? securityPath : "/";
  const client = await readOpenidSignIn(context, destination);
  const forApp = client && (client.appName ?? "The app");
  const shown = { email: user.email, destination, back, forApp, purpose: stepUpPurpose(destination) };
  if (user.mfa.enrolled) {
    const authenticators = (await listAuthenticators(context, user.id)).filter(({ verified }) => verified);
    return { ...shown, authenticators, ways: null, challenge: null };
  }
  allowProviderPages(context);
  const ways = await getReauthenticationMethods(context, user);
  return { ...shown, authenticators: [], ways, challenge: showBotChallenge(context) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, destination } = await openStepUp(context, request);
  const form = await readForm(request, context);
  if (user.mfa.enrolled) {
    const submission = parseWithZod(form, { schema: challengeSchema });
    if (submission.status !== "success") return data(submission.reply(), { status: 400 });
    const verification = await verifyCode(context, { user, ...submission.value });
    if (verification.verified) throw redirect(destination);
    const reply = submission.reply({ ...toFormErrors("code", verification), hideFields: ["code"] });
    return data(reply, { status: verification.status });
  }
  const submission = parseWithZod(form, { schema: signInAgainSchema });
  if (submission.status !== "success") return data(submission.reply({ hideFields: ["password"] }), { status: 400 });
  const { password } = submission.value;
  const result = await signInAgain(context, { user, password, botChallenge: form.get(botChallengeField) });
  if ("session" in result) {
    throw await completeSignIn(context, { session: result.session, method: "password", destination, password });
  }
  const reply = submission.reply({ ...toFormErrors("password", result), hideFields: ["password"] });
  return data(reply, { status: result.status });
}

export default function StepUpPage() {
  const { email, destination, back, forApp, purpose, authenticators, ways, challenge } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { factorId, code, password }] = useForm<{ factorId: string; code: string; password: string }>({
    id: "step-up",
    lastResult,
  });
  return (
    <EntryPage
      title="Confirm it’s you"
      lead={
        forApp
          ? `${forApp} needs you to confirm your identity before you sign in.`
          : `${ways ? "Sign in again" : "Enter a code from your authenticator app"} before you ${purpose}. We won’t ask again for 10 minutes.`
      }
    >
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors(ways ? { password } : { code })} />
      <p>
        Signed in as <strong className="font-semibold">{email}</strong>.
      </p>
      {ways ? (
        <SignInAgain
          {...ways}
          formId={form.id}
          email={email}
          field={password}
          challenge={challenge}
          passkeyButton={ways.passkey ? <PasskeySignIn returnUrl={destination} verifyAt="/step-up/passkey" /> : null}
          returnUrl={destination}
        />
      ) : (
        <AccountForm id={form.id} noValidate className="space-y-5">
          <CodeFields
            authenticators={authenticators}
            chosen={factorId.initialValue}
            factorName={factorId.name}
            code={code}
            autoFocus={lastResult === undefined}
          />
          <Button className="w-full">Confirm</Button>
        </AccountForm>
      )}
      <div className="space-y-1">
        {ways ? (
          <ButtonLink href={addReturnUrl("/qr", destination)} variant="quiet" className="w-full">
            Confirm with your phone
          </ButtonLink>
        ) : null}
        <ButtonLink href={back} variant="quiet" className="w-full">
          Cancel
        </ButtonLink>
        <SignOutForm quiet />
      </div>
    </EntryPage>
  );
}
