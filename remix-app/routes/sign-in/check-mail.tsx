import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { guardAttempt } from "../../abuse/attempts.ts";
import { botChallengeField, showBotChallenge } from "../../abuse/bot-challenge.ts";
import { BotChallenge } from "../../abuse/bot-challenge-field.tsx";
import { cookies } from "../../http/cookie-table.ts";
import { readCookie, writeCookie } from "../../http/cookies.ts";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { mailSchema } from "../../session/credentials.ts";
import { startEvenTiming, withholdMail } from "../../session/even-answers.ts";
import { mapMailError } from "../../supabase/auth-errors.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { EmailField } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Check your email");

export function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  return {
    email: readCookie(context, cookies.pendingMail) || null,
    returnUrl: redirectTarget(searchParams.get("returnUrl"), { context, fallback: "/" }),
    unconfirmed: searchParams.has("unconfirmed"),
    mailboxUrl: context.env.MAILBOX_URL ?? null,
    challenge: showBotChallenge(context),
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const submission = parseWithZod(form, { schema: mailSchema });
  if (submission.status !== "success") return data({ result: submission.reply(), pause: null }, { status: 400 });
  const { email, returnUrl } = submission.value;
  const destination = redirectTarget(returnUrl, { context, fallback: "/" });
  const whenDue = startEvenTiming();
  const botChallenge = form.get(botChallengeField);
  const attempt = await guardAttempt(context, { action: "mail", mail: "confirmation_mail", email, botChallenge });
  if (!attempt.admitted) {
    const result = submission.reply({ formErrors: [attempt.message] });
    return data({ result, pause: null }, { status: attempt.status });
  }
  const { error } =
    attempt.mailWaitSeconds === null
      ? await context.session.anonymousClient().auth.resend({
          type: "signup",
          email,
          options: { emailRedirectTo: `${context.origin}${destination}`, ...attempt.challenge },
        })
      : await withholdMail(context, attempt);
  // Answers and counts a rate-limited request like a successful one. A different answer would reveal that this address
  // was sent an email recently.
  const failure = mapMailError(error);
  await attempt.settle(failure ? "void" : "succeeded");
  await whenDue();
  if (failure) {
    return data(
      { result: submission.reply({ formErrors: [failure.message] }), pause: null },
      { status: failure.status },
    );
  }
  writeCookie(context, cookies.pendingMail, { value: email });
  return data({ result: submission.reply(), pause: attempt.mailPause });
}

export default function CheckMailPage() {
  const { email: address, returnUrl, unconfirmed, mailboxUrl, challenge } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const [form, { email }] = useForm<{ email: string }>({
    id: "resend",
    lastResult: answer?.result,
    defaultValue: { email: address ?? "" },
  });
  return (
    <EntryPage
      title="Check your email"
      lead={
        unconfirmed
          ? "Your email isn’t confirmed yet. Open the link we sent you."
          : "To confirm your email address, open the link we sent you."
      }
    >
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ email })} />
      {answer?.pause ? (
        <Notice tone="good">
          If this address isn’t confirmed yet, open the link you got in the last {answer.pause}. If you didn’t get one,
          we’ve just sent you a new one. If the address is already confirmed, sign in.
        </Notice>
      ) : null}
      {address && !answer?.pause ? (
        <p>
          We sent it to <strong className="font-semibold">{address}</strong>. It can take a minute. Check your spam
          folder. If you already have an account, sign in instead.
        </p>
      ) : null}
      {mailboxUrl ? (
        <ButtonLink href={mailboxUrl} variant="primary" className="w-full">
          Open the local mailbox
        </ButtonLink>
      ) : null}
      <form method="post" id={form.id} noValidate className="space-y-4 border-line border-t pt-6">
        <input type="hidden" name="returnUrl" value={returnUrl} />
        <h2 className="font-semibold text-large">Didn’t get it?</h2>
        <EmailField field={email} autoComplete="email" required />
        <BotChallenge challenge={challenge} />
        <Button variant="secondary" className="w-full">
          Resend email
        </Button>
      </form>
      <p className="text-muted">
        <a className="link" href={`/login?${new URLSearchParams({ returnUrl })}`}>
          Back to sign in
        </a>
      </p>
    </EntryPage>
  );
}
