import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { botChallengeField, showBotChallenge } from "../../abuse/bot-challenge.ts";
import { BotChallenge } from "../../abuse/bot-challenge-field.tsx";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { recordSignInUnderOverride } from "../../recovery/login-override.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { completeConfirmation, mailSchema } from "../../session/credentials.ts";
import { emailCodeSchema, readCodeRequest, redeemCode, sendEmailCode } from "../../session/email-code.ts";
import { EnterCode } from "../../session/email-code-page.tsx";
import { maskEmail } from "../../session/mailed-link.ts";
import { isAddAccount, redirectSignedIn, requireRoomFor } from "../../session/sign-in-page.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { EmailField } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Sign in with an emailed code");

/** Serves `/login/code`, and `/add-account/code` for people who stay signed in to another account. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  const returnUrl = redirectTarget(searchParams.get("returnUrl"), { context, fallback: "" });
  const adding = isAddAccount(request);
  if (!adding) await redirectSignedIn(context, returnUrl || null);
  const requestedEmail = searchParams.has("other") ? null : readCodeRequest(context);
  return {
    returnUrl,
    adding,
    masked: requestedEmail && maskEmail(requestedEmail),
    resent: searchParams.has("resent"),
    expired: searchParams.has("expired"),
    mailboxUrl: context.env.MAILBOX_URL ?? null,
    challenge: showBotChallenge(context),
  };
}

/** Accepts a code, or an email to which to send a code. A resent code goes to the same email. */
export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  // The sign-in page's form posts here too. The password typed there must not be echoed.
  form.delete("password");
  const returnUrl = redirectTarget(form.get("returnUrl"), { context, fallback: "" });
  const query = returnUrl ? new URLSearchParams({ returnUrl }) : new URLSearchParams();
  const here = () => redirect(`${new URL(request.url).pathname}${query.size > 0 ? `?${query}` : ""}`);
  const requestedEmail = readCodeRequest(context);
  if (form.has("code")) {
    if (!requestedEmail) {
      query.set("expired", "");
      throw here();
    }
    return enterCode(context, { form, email: requestedEmail, destination: returnUrl || "/" });
  }
  if (form.get("intent") === "resend" && requestedEmail) {
    form.set("email", requestedEmail);
    query.set("resent", "");
  }
  const view = query.has("resent") ? ("enter" as const) : ("ask" as const);
  const submission = parseWithZod(form, { schema: mailSchema });
  if (submission.status !== "success") return data({ view, result: submission.reply() }, { status: 400 });
  const { email } = submission.value;
  requireRoomFor(context, email.toLowerCase());
  const botChallenge = form.get(botChallengeField);
  const failure = await sendEmailCode(context, { email, botChallenge, allowOverride: true });
  if (!failure) throw here();
  // The page masks the email, because another person may be using this browser now.
  const hideFields = view === "enter" ? ["email"] : [];
  const result = submission.reply({ formErrors: [failure.message], hideFields });
  return data({ view, result }, { status: failure.status });
}

async function enterCode(
  context: AppLoadContext,
  { form, email, destination }: { form: FormData; email: string; destination: string },
) {
  const view = "enter" as const;
  const submission = parseWithZod(form, { schema: emailCodeSchema });
  if (submission.status !== "success") {
    return data({ view, result: submission.reply({ hideFields: ["code"] }) }, { status: 400 });
  }
  requireRoomFor(context, email.toLowerCase());
  const redeemed = await redeemCode(context, {
    email,
    code: submission.value.code,
    recordOverride: (result) => recordSignInUnderOverride(context, { email, ...result }),
  });
  if ("message" in redeemed) {
    const result = submission.reply({ formErrors: [redeemed.message], hideFields: ["code"] });
    return data({ view, result }, { status: redeemed.status });
  }
  const { user, session } = redeemed;
  const next = await completeSignIn(context, { session, method: "email_code", destination });
  await completeConfirmation(context, { user, destination });
  throw next;
}

export default function EmailCodePage() {
  const { returnUrl, adding, masked, resent, expired, mailboxUrl, challenge } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const [form, { email }] = useForm<{ email: string }>({ id: "ask-for-code", lastResult: answer?.result });
  const query = returnUrl ? `?${new URLSearchParams({ returnUrl })}` : "";
  const back = (
    <a className="link" href={`${adding ? "/add-account" : "/login"}${query}`}>
      Back to sign in
    </a>
  );
  if (masked && answer?.view !== "ask") {
    const other = new URLSearchParams({ other: "", ...(returnUrl ? { returnUrl } : {}) });
    return (
      <EnterCode
        {...{ masked, returnUrl, mailboxUrl, challenge }}
        exists={false}
        resent={resent && !answer}
        lastResult={answer?.result}
      >
        <p className="text-muted">
          <a className="link" href={`?${other}`}>
            Use another email
          </a>{" "}
          · {back}
        </p>
      </EnterCode>
    );
  }
  return (
    <EntryPage title="Sign in with an emailed code" lead="We’ll email you a code to enter in this browser.">
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ email })} />
      {expired && !answer ? (
        <Notice tone="warn">
          The code has expired, or was requested in another browser. Request a new code here and enter it in this
          browser.
        </Notice>
      ) : null}
      <form method="post" id={form.id} noValidate className="space-y-5">
        <input type="hidden" name="returnUrl" value={returnUrl} />
        <EmailField field={email} required />
        <BotChallenge challenge={challenge} />
        <Button className="w-full">Email me a code</Button>
      </form>
      <p>{back}</p>
    </EntryPage>
  );
}
