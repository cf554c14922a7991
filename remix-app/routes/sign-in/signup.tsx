import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { guardAttempt } from "../../abuse/attempts.ts";
import { botChallengeField, showBotChallenge } from "../../abuse/bot-challenge.ts";
import { BotChallenge } from "../../abuse/bot-challenge-field.tsx";
import { cookies } from "../../http/cookie-table.ts";
import { writeCookie } from "../../http/cookies.ts";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { allowProviderPages } from "../../oauth/begin-oauth.ts";
import { offeredProviders } from "../../oauth/offered-providers.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { storedSession } from "../../session/cookies.ts";
import { isTypedPasswordStored, rememberPassword, signUpSchema } from "../../session/credentials.ts";
import { startEvenTiming, withholdMail } from "../../session/even-answers.ts";
import { findPasswordFault } from "../../session/password-fault.ts";
import { isAddAccount, redirectSignedIn } from "../../session/sign-in-page.ts";
import { readSignUp, type SignUpOffer, uninvitedMessage } from "../../session/sign-up.ts";
import { mapAuthError, unreachableFailure } from "../../supabase/auth-errors.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { EmailField, Field, NewPasswordField } from "../../ui/field.tsx";
import { SignInMethods } from "../../ui/provider-buttons.tsx";
import { hashTokenOfLink } from "../../workspaces/invitations.ts";

export const meta = pageTitle("Create an account");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const given = new URL(request.url).searchParams.get("returnUrl");
  // Someone who is adding an account is already signed in, so don't redirect them.
  if (!isAddAccount(request)) await redirectSignedIn(context, given);
  const returnUrl = redirectTarget(given, { context, fallback: "" });
  allowProviderPages(context);
  // Without an answer, shows the form: the database refuses accounts that may not be created.
  const { open, email } = await readOffer(context, request).catch(() => ({ open: true, email: null }));
  return {
    returnUrl,
    email,
    isClosed: !open && email === null,
    isFixed: !open,
    hasInvitation: new URL(request.url).searchParams.has("invitation"),
    challenge: showBotChallenge(context),
    offered: offeredProviders(context),
  };
}

/** Reads who may sign up with this page's link, which may be an invitation or lead to a workspace's invitation. */
function readOffer(context: AppLoadContext, { url }: Request): Promise<SignUpOffer> {
  const { searchParams } = new URL(url);
  const returnUrl = redirectTarget(searchParams.get("returnUrl"), { context, fallback: "" });
  const invitation = z.uuid().safeParse(searchParams.get("invitation")).data ?? null;
  return readSignUp(context, { invitation, workspaceTokenHash: hashTokenOfLink(returnUrl) });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const submission = parseWithZod(form, { schema: signUpSchema });
  if (submission.status !== "success") {
    return data(submission.reply({ hideFields: ["password"] }), { status: 400 });
  }
  const { name, email, password, returnUrl } = submission.value;
  const destination = redirectTarget(returnUrl, { context, fallback: "/" });
  const whenDue = startEvenTiming();
  const botChallenge = form.get(botChallengeField);
  const attempt = await guardAttempt(context, { action: "sign_up", mail: "sign_up_mail", email, botChallenge });
  if (!attempt.admitted) {
    const result = submission.reply({ formErrors: [attempt.message], hideFields: ["password"] });
    return data(result, { status: attempt.status });
  }
  const offer = await readOffer(context, request).catch(() => null);
  const refusal = refuseEmail(offer, email);
  if (refusal) {
    await attempt.settle("void");
    const result = submission.reply({ formErrors: [refusal.message], hideFields: ["password"] });
    return data(result, { status: refusal.status });
  }
  const fault = await findPasswordFault(context, { password, email, name: name ?? null });
  if (fault) {
    await attempt.settle("void");
    const result = submission.reply({ fieldErrors: { password: [fault] }, hideFields: ["password"] });
    return data(result, { status: 400 });
  }
  const { data: created, error } =
    attempt.mailWaitSeconds === null
      ? await context.session.anonymousClient().auth.signUp({
          email,
          password,
          options: {
            emailRedirectTo: `${context.origin}${destination}`,
            ...(name === undefined ? {} : { data: { full_name: name } }),
            ...attempt.challenge,
          },
        })
      : { data: { user: null, session: null }, ...(await withholdMail(context, attempt)) };
  const own = await isTypedPasswordStored(context, { created: created.user, email, password });
  // If the error reveals whether the account exists, the attempt counts like a successful one.
  const known = error !== null && saysWhetherAccountExists(error.code);
  await attempt.settle(error && !known ? "void" : "succeeded");
  await whenDue();
  if (error?.code === "unexpected_failure" && !offer?.open) {
    // The invitation was revoked meanwhile.
    return data(submission.reply({ formErrors: [uninvitedMessage], hideFields: ["password"] }), { status: 403 });
  }
  if (error && !known) {
    const { message, status } = mapAuthError(
      error,
      "We couldn’t create an account with this email. Check it and try again.",
    );
    const errors =
      error.code === "weak_password" ? { fieldErrors: { password: [message] } } : { formErrors: [message] };
    return data(submission.reply({ ...errors, hideFields: ["password"] }), { status });
  }
  if (created.session) {
    // Sign-up returns a session only if the backend confirms emails automatically.
    const session = storedSession.parse(created.session);
    throw await completeSignIn(context, { session, method: "sign_up", destination });
  }
  rememberPassword(context, { email, own, name });
  writeCookie(context, cookies.pendingMail, { value: email });
  throw redirect(`/signup/check-mail?${new URLSearchParams({ returnUrl: destination })}`);
}

/**
 * Returns why an email may not sign up here, or null. While sign-up is closed, the answer depends only on the page's link,
 * so that it reveals nothing about other emails.
 */
function refuseEmail(offer: SignUpOffer | null, email: string): { status: 403 | 503; message: string } | null {
  if (offer === null) return unreachableFailure;
  if (offer.open || email.toLowerCase() === offer.email) return null;
  const message = offer.email === null ? uninvitedMessage : `Your invitation only works for ${offer.email}.`;
  return { status: 403, message };
}

/** Returns whether an error reveals that the email is registered. The response stays the same for every email. */
function saysWhetherAccountExists(code: string | undefined): boolean {
  return code === "user_already_exists" || code === "email_exists" || code === "over_email_send_rate_limit";
}

export default function SignUpPage() {
  const {
    returnUrl,
    email: invited,
    isClosed,
    isFixed,
    hasInvitation,
    challenge,
    offered,
  } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { name, email, password }] = useForm<{ name: string; email: string; password: string }>({
    id: "sign-up",
    lastResult,
    defaultValue: { email: invited ?? "" },
  });
  const query = returnUrl ? `?${new URLSearchParams({ returnUrl })}` : "";
  const signIn = (
    <p className="text-muted">
      Have an account?{" "}
      <a className="link" href={`/login${query}`}>
        Sign in
      </a>
    </p>
  );
  if (isClosed) {
    return (
      <EntryPage
        title={hasInvitation ? "This invitation no longer works" : "Sign-up is by invitation"}
        lead={
          hasInvitation
            ? "It has expired or was revoked. Ask your administrator for a new one."
            : "Ask your administrator. If you were invited, open the link in the email."
        }
      >
        {signIn}
      </EntryPage>
    );
  }
  return (
    <EntryPage title="Create an account">
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ name, email, password })} />
      <SignInMethods {...offered} returnUrl={returnUrl}>
        <form method="post" id={form.id} noValidate className="space-y-5">
          <input type="hidden" name="returnUrl" value={returnUrl} />
          <Field
            field={name}
            label="Name (optional)"
            hint="Shown to people in your workspaces."
            type="text"
            autoComplete="name"
            maxLength={80}
          />
          <EmailField
            field={email}
            required
            readOnly={isFixed}
            hint={isFixed ? "Your invitation only works for this email address." : undefined}
          />
          <NewPasswordField field={password} label="Password" />
          <BotChallenge challenge={challenge} />
          <Button className="w-full">Create account</Button>
        </form>
      </SignInMethods>
      {signIn}
    </EntryPage>
  );
}
