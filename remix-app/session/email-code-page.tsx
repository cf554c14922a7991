import { type SubmissionResult, useForm } from "@conform-to/react";
import type { ReactNode } from "react";
import type { BotChallengeSettings } from "../abuse/bot-challenge.ts";
import { BotChallenge } from "../abuse/bot-challenge-field.tsx";
import { backendMailLifetime } from "../http/backend-mail-lifetime.ts";
import { EmailAddress } from "../ui/address.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { EntryPage } from "../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../ui/error-summary.tsx";
import { Field } from "../ui/field.tsx";
import { Notice } from "../ui/notice.tsx";

export interface EnterCodeProps {
  /** The masked email that the code was sent to. */
  masked: string;
  /** True if the page may show that the account exists, because the visitor is known to own it. */
  exists: boolean;
  resent: boolean;
  returnUrl: string;
  mailboxUrl: string | null;
  challenge: BotChallengeSettings | null;
  lastResult: SubmissionResult<string[]> | null | undefined;
  /** Fields that both forms send. */
  hidden?: ReactNode;
  /** Links below the forms. */
  children: ReactNode;
}

/** Renders the form for an emailed code, in the browser that requested it. */
export function EnterCode(props: EnterCodeProps) {
  const { masked, exists, resent, returnUrl, mailboxUrl, challenge, lastResult, hidden, children } = props;
  const [form, { code }] = useForm<{ code: string }>({ id: "email-code", lastResult });
  const fields = (
    <>
      <input type="hidden" name="returnUrl" value={returnUrl} />
      {hidden}
    </>
  );
  return (
    <EntryPage
      title="Check your email"
      lead={
        <EmailAddress whole>
          {exists
            ? `Enter the code we sent to ${masked}.`
            : `If ${masked} has an account, we’ve emailed it a code. Enter the code here.`}
        </EmailAddress>
      }
    >
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ code })} />
      {resent ? (
        <Notice tone="good">
          If you got a code in the last 3 minutes, enter that one. If not, we’ve just sent you a new one.
        </Notice>
      ) : null}
      {mailboxUrl ? (
        <ButtonLink href={mailboxUrl} className="w-full">
          Open the local mailbox
        </ButtonLink>
      ) : null}
      <form method="post" id={form.id} noValidate className="space-y-5">
        {fields}
        <Field
          field={code}
          label="Code"
          hint={`Expires in ${backendMailLifetime}. Enter it only here: we’ll never ask for it by phone, chat or email.`}
          type="text"
          inputMode="numeric"
          autoComplete="one-time-code"
          spellCheck={false}
          required
          autoFocus={!lastResult}
          defaultValue={undefined}
        />
        <Button className="w-full">{exists ? "Confirm" : "Sign in"}</Button>
      </form>
      <form method="post" className="space-y-4 border-line border-t pt-6">
        {fields}
        <input type="hidden" name="intent" value="resend" />
        <h2 className="font-semibold text-large">Didn’t get it?</h2>
        <p>
          It can take a minute. Check your spam folder. We send at most one code or reset link every 3 minutes.
          {exists ? null : " If you got an email with a confirmation link instead, open the link, then request a code."}
        </p>
        <BotChallenge challenge={challenge} />
        <Button variant="secondary" className="w-full">
          Resend code
        </Button>
      </form>
      {children}
    </EntryPage>
  );
}
