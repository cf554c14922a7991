import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { guardAttempt } from "../../abuse/attempts.ts";
import { botChallengeField, showBotChallenge } from "../../abuse/bot-challenge.ts";
import { BotChallenge } from "../../abuse/bot-challenge-field.tsx";
import { readForm } from "../../http/form.ts";
import { mailSchema } from "../../session/credentials.ts";
import { startEvenTiming, withholdMail } from "../../session/even-answers.ts";
import { mapMailError } from "../../supabase/auth-errors.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { EmailField } from "../../ui/field.tsx";

export const meta = pageTitle("Reset your password");

export function loader({ context }: LoaderFunctionArgs) {
  return { mailboxUrl: context.env.MAILBOX_URL ?? null, challenge: showBotChallenge(context) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  // The sign-in page's form posts here too. The password typed there must not be echoed.
  form.delete("password");
  if (form.get("intent") === "open") {
    return data({ result: { initialValue: { email: String(form.get("email") ?? "") } }, sent: null });
  }
  const submission = parseWithZod(form, { schema: mailSchema });
  if (submission.status !== "success") return data({ result: submission.reply(), sent: null }, { status: 400 });
  const { email } = submission.value;
  const whenDue = startEvenTiming();
  const botChallenge = form.get(botChallengeField);
  const attempt = await guardAttempt(context, { action: "mail", mail: "recovery_mail", email, botChallenge });
  if (!attempt.admitted) {
    const result = submission.reply({ formErrors: [attempt.message] });
    return data({ result, sent: null }, { status: attempt.status });
  }
  const { error } =
    attempt.mailWaitSeconds === null
      ? await context.session.anonymousClient().auth.resetPasswordForEmail(email, {
          redirectTo: `${context.origin}/reset-password`,
          ...attempt.challenge,
        })
      : await withholdMail(context, attempt);
  // A rate limit on the email would reveal that it is registered, so a rate-limited request is answered and counted
  // like a successful one.
  const failure = mapMailError(error);
  await attempt.settle(failure ? "void" : "succeeded");
  await whenDue();
  if (failure) {
    const result = submission.reply({ formErrors: [failure.message] });
    return data({ result, sent: null }, { status: failure.status });
  }
  return data({ result: submission.reply(), sent: { to: email, pause: attempt.mailPause } });
}

export default function ForgotPasswordPage() {
  const { mailboxUrl, challenge } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const [form, { email }] = useForm<{ email: string }>({ id: "forgot-password", lastResult: answer?.result });
  if (answer?.sent) {
    const { to, pause } = answer.sent;
    return (
      <EntryPage
        title="Check your email"
        lead="If there’s an account for this address, we’ve sent it a link to choose a new password."
      >
        <p>
          Check the inbox of <strong className="font-semibold">{to}</strong>. The email can take a minute to arrive, and
          its link works once.
        </p>
        <p>
          Didn’t get it? Check your spam folder. We send at most one reset link or sign-in code every {pause}. After
          that, you can{" "}
          <a className="link" href="/forgot-password">
            request a new link
          </a>
          .
        </p>
        {mailboxUrl ? (
          <ButtonLink href={mailboxUrl} variant="primary" className="w-full">
            Open the local mailbox
          </ButtonLink>
        ) : null}
        <p>
          <a className="link" href="/login">
            Back to sign in
          </a>
        </p>
      </EntryPage>
    );
  }
  return (
    <EntryPage title="Reset your password" lead="We’ll email you a link to choose a new one.">
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ email })} />
      <form method="post" id={form.id} noValidate className="space-y-5">
        <EmailField field={email} required />
        <BotChallenge challenge={challenge} />
        <Button className="w-full">Send reset link</Button>
      </form>
      <p>
        <a className="link" href="/login">
          Back to sign in
        </a>
      </p>
    </EntryPage>
  );
}
