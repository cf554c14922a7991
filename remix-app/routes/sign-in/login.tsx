import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { getAttemptOutcome, guardAttempt } from "../../abuse/attempts.ts";
import { botChallengeField, showBotChallenge } from "../../abuse/bot-challenge.ts";
import { BotChallenge } from "../../abuse/bot-challenge-field.tsx";
import { cookies } from "../../http/cookie-table.ts";
import { writeCookie } from "../../http/cookies.ts";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { allowProviderPages } from "../../oauth/begin-oauth.ts";
import { readFailureText } from "../../oauth/failures.ts";
import { offeredProviders } from "../../oauth/offered-providers.ts";
import { readOpenidSignIn } from "../../openid/sign-in-target.ts";
import { PasskeySignIn } from "../../passkeys/passkey-sign-in.tsx";
import { signInUnderOverride } from "../../recovery/login-override.ts";
import { readSignInTarget } from "../../satellites/app-destination.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { storedSession } from "../../session/cookies.ts";
import { rememberPassword, signInSchema } from "../../session/credentials.ts";
import { startEvenTiming } from "../../session/even-answers.ts";
import { readLastUsedMethod } from "../../session/last-used-method.ts";
import {
  findEndedAccount,
  isAddAccount,
  openAddAccount,
  redirectSignedIn,
  redirectToChooser,
} from "../../session/sign-in-page.ts";
import { mapAuthError } from "../../supabase/auth-errors.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { EmailField, PasswordField } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { LastUsedBadge, SignInMethods } from "../../ui/provider-buttons.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.added ? "Add an account" : "Sign in"}`);

/** Serves `/login`, and `/add-account` for people who stay signed in to another account. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  const { returnUrl, appName, dropped } = await readSignInTarget(context, searchParams);
  const adding = isAddAccount(request);
  if (!adding) {
    await redirectSignedIn(context, returnUrl || null);
    // After an account is deleted, shows the notice on this page instead of redirecting to the account chooser.
    if (!searchParams.has("accountDeleted")) redirectToChooser(context, returnUrl);
  }
  allowProviderPages(context);
  const client = await readOpenidSignIn(context, returnUrl);
  return {
    returnUrl,
    ended: adding ? null : findEndedAccount(context),
    added: adding ? openAddAccount(context, searchParams) : null,
    appName: client?.appName ?? appName,
    loginHint: client?.loginHint ?? "",
    dropped,
    signedOutHereOnly: searchParams.has("signedOutHereOnly"),
    deleted: searchParams.has("accountDeleted"),
    challenge: showBotChallenge(context),
    oauthFailure: readFailureText(searchParams, context.env),
    offered: offeredProviders(context),
    byCodeLast: readLastUsedMethod(context) === "email_code",
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const submission = parseWithZod(form, { schema: signInSchema });
  const reply = (message: string) => submission.reply({ formErrors: [message], hideFields: ["password"] });
  if (submission.status !== "success") {
    return data(submission.reply({ hideFields: ["password"] }), { status: 400 });
  }
  const { email, password, returnUrl } = submission.value;
  const destination = redirectTarget(returnUrl, { context, fallback: "/" });
  const whenDue = startEvenTiming();
  const botChallenge = form.get(botChallengeField);
  const attempt = await guardAttempt(context, { action: "password", email, botChallenge, allowOverride: true });
  if (!attempt.admitted) return data(reply(attempt.message), { status: attempt.status });
  const credentials = { email, password, options: attempt.challenge };
  const response = await context.session.anonymousClient().auth.signInWithPassword(credentials);
  const { overrideId } = attempt;
  const { data: tokens, error } = overrideId
    ? await signInUnderOverride(context, { email, password, overrideId, response })
    : response;
  await attempt.settle(getAttemptOutcome(error));
  if (error?.code === "email_not_confirmed") {
    // Reached only with the right password.
    rememberPassword(context, { email, own: true });
    writeCookie(context, cookies.pendingMail, { value: email });
    throw redirect(`/signup/check-mail?${new URLSearchParams({ unconfirmed: "", returnUrl: destination })}`);
  }
  if (error) {
    await whenDue();
    const failure = mapAuthError(error, "That email and password don’t match an account. Check both and try again.");
    return data(reply(failure.message), { status: failure.status });
  }
  const session = storedSession.parse(tokens.session);
  throw await completeSignIn(context, { session, method: "password", destination, password });
}

/** @param props.end completes "… was signed out"; empty if the reason is unknown */
function SignedOutNotice({ email, end }: { email: string | null; end: string }) {
  return (
    <Notice tone="warn">
      {email ? <strong className="wrap-anywhere font-semibold">{email}</strong> : "This account"}{" "}
      {end ? `was signed out ${end}` : "is signed out"}. Sign in again.
    </Notice>
  );
}

export default function SignInPage() {
  const {
    returnUrl,
    appName,
    loginHint,
    dropped,
    signedOutHereOnly,
    deleted,
    challenge,
    oauthFailure,
    offered,
    byCodeLast,
    added,
    ended,
  } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { email, password }] = useForm<{ email: string; password: string }>({ id: "sign-in", lastResult });
  // The error of a provider sign-in. It is no longer shown once the form has been submitted.
  const oauthErrors = oauthFailure && !lastResult ? [oauthFailure] : undefined;
  const query = returnUrl ? `?${new URLSearchParams({ returnUrl })}` : "";
  const lead = [
    appName ? `To continue to ${appName}.` : "",
    added?.stays ? `You’ll stay signed in as ${added.stays}.` : "",
  ].join(" ");
  return (
    <EntryPage title={added && !added.again ? "Add an account" : "Sign in"} lead={lead.trim()}>
      <ErrorSummary id={form.errorId} form={form.errors ?? oauthErrors} fields={fieldErrors({ email, password })} />
      {signedOutHereOnly ? (
        <Notice tone="warn">
          You’re signed out in this browser, but we couldn’t end the session on our servers. If someone else may have
          access to your account,{" "}
          <a className="link" href="/forgot-password">
            reset your password
          </a>{" "}
          to sign out everywhere.
        </Notice>
      ) : null}
      {added?.again ? <SignedOutNotice email={added.email} end={added.end} /> : null}
      {ended && !deleted && !signedOutHereOnly ? <SignedOutNotice {...ended} /> : null}
      {deleted ? <Notice tone="good">Your account was deleted and you’re signed out everywhere.</Notice> : null}
      {dropped ? (
        <Notice tone="warn">
          The page you came from isn’t part of this site. After you sign in, you’ll go to the home page.
        </Notice>
      ) : null}
      <SignInMethods {...offered} returnUrl={returnUrl} intent={added ? "add" : undefined}>
        <form method="post" id={form.id} noValidate className="mb-3 space-y-5">
          <input type="hidden" name="returnUrl" value={returnUrl} />
          <EmailField
            field={email}
            autoComplete="username webauthn"
            required
            defaultValue={email.initialValue ?? (added?.email || loginHint)}
          />
          <PasswordField field={password} label="Password" autoComplete="current-password" />
          <BotChallenge challenge={challenge} />
          <div className="space-y-3">
            <Button className="w-full">Sign in</Button>
            <Button
              variant="secondary"
              className="w-full"
              formAction={`${added ? "/add-account" : "/login"}/code${query}`}
            >
              Email me a code
              {byCodeLast ? <LastUsedBadge /> : null}
            </Button>
            {/* Posts the form, so that the typed email goes along without appearing in a URL. */}
            <Button
              variant="quiet"
              className="w-full"
              formAction="/forgot-password"
              name="intent"
              value="open"
              data-skips-bot-challenge
            >
              Forgot password?
            </Button>
          </div>
        </form>
        <PasskeySignIn returnUrl={returnUrl} />
      </SignInMethods>
      <p className="text-muted">
        New here?{" "}
        <a className="link" href={`${added ? "/add-account/new" : "/signup"}${query}`}>
          Create an account
        </a>
      </p>
      {added ? (
        <ButtonLink variant="quiet" className="w-full" href="/accounts">
          Back to your accounts
        </ButtonLink>
      ) : null}
    </EntryPage>
  );
}
