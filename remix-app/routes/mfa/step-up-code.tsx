import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { botChallengeField, showBotChallenge } from "../../abuse/bot-challenge.ts";
import { BotChallenge } from "../../abuse/bot-challenge-field.tsx";
import { readForm } from "../../http/form.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import { openStepUp } from "../../mfa/open-step.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { emailCodeSchema, readCodeRequest, redeemCode, sendEmailCode } from "../../session/email-code.ts";
import { EnterCode } from "../../session/email-code-page.tsx";
import { maskEmail } from "../../session/mailed-link.ts";
import { AccountForm, PageAccountField } from "../../ui/account-form.tsx";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";

export const meta = pageTitle("Confirm it’s you");

/**
 * Opens the step-up for people without an authenticator, who confirm their identity with an emailed code. Authenticator
 * codes have their own page.
 */
async function openCodeStep(...of: Parameters<typeof openStepUp>) {
  const step = await openStepUp(...of);
  if (step.user.mfa.enrolled || !step.user.email) throw redirect(addReturnUrl("/step-up", step.destination));
  return step;
}

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, destination } = await openCodeStep(context, request);
  return {
    masked: maskEmail(user.email),
    codeSent: readCodeRequest(context) === user.email,
    destination,
    resent: new URL(request.url).searchParams.has("resent"),
    mailboxUrl: context.env.MAILBOX_URL ?? null,
    challenge: showBotChallenge(context),
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, destination } = await openCodeStep(context, request);
  const { email } = user;
  const form = await readForm(request, context);
  if (form.has("code")) {
    const submission = parseWithZod(form, { schema: emailCodeSchema });
    if (submission.status !== "success") return data(submission.reply({ hideFields: ["code"] }), { status: 400 });
    if (readCodeRequest(context) !== email) throw redirect(addReturnUrl("/step-up/code", destination));
    const redeemed = await redeemCode(context, { email, code: submission.value.code });
    if ("session" in redeemed) {
      throw await completeSignIn(context, { session: redeemed.session, method: "email_code", destination });
    }
    const reply = submission.reply({ formErrors: [redeemed.message], hideFields: ["code"] });
    return data(reply, { status: redeemed.status });
  }
  const failure = await sendEmailCode(context, { email, botChallenge: form.get(botChallengeField) });
  if (failure) return data({ error: { "": [failure.message] } }, { status: failure.status });
  const query = new URLSearchParams({ returnUrl: destination });
  if (form.get("intent") === "resend") query.set("resent", "");
  throw redirect(`/step-up/code?${query}`);
}

export default function StepUpByCodePage() {
  const { masked, codeSent, destination, resent, mailboxUrl, challenge } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const back = (
    <p>
      <a className="link" href={addReturnUrl("/step-up", destination)}>
        Confirm another way
      </a>
    </p>
  );
  if (codeSent) {
    return (
      <EnterCode
        {...{ masked, mailboxUrl, challenge, lastResult }}
        exists
        resent={resent && !lastResult}
        returnUrl={destination}
        hidden={<PageAccountField />}
      >
        {back}
      </EnterCode>
    );
  }
  return (
    <EntryPage title="Confirm it’s you" lead={<EmailAddress whole>{`We’ll email a code to ${masked}.`}</EmailAddress>}>
      <ErrorSummary id="step-up-code-error" form={lastResult?.error?.[""]} />
      <AccountForm className="space-y-5">
        <BotChallenge challenge={challenge} />
        <Button className="w-full">Email me a code</Button>
      </AccountForm>
      {back}
    </EntryPage>
  );
}
