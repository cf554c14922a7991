import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { findLinkEmail } from "../../recovery/find-link-email.ts";
import { invalidLinkMessage } from "../../recovery/invalid-link.ts";
import { recoverAccount } from "../../recovery/recover-account.ts";
import { clearRecoveryBrowser, markRecoveryBrowser } from "../../recovery/recovery-browser.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { emailSchema } from "../../session/credentials.ts";
import { maskEmail } from "../../session/mailed-link.ts";
import { activeEmail, requireRoomFor } from "../../session/sign-in-page.ts";
import { buildAccessPath } from "../../settings/paths.ts";
import { OtherAccountNotice } from "../../ui/account-choices.tsx";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { CodeField, EmailField } from "../../ui/field.tsx";

export const meta = pageTitle("Recover your account");

/** A longer text is not one of our tokens, and is answered like a used link. */
const recoveryTokenSchema = z.string().max(200);
const nextPathSchema = z.string().optional();
const linkSchema = z.object({ token: recoveryTokenSchema, next: nextPathSchema });
const codeSchema = z.object({
  email: emailSchema,
  code: z
    .string({ error: "Enter the code from the email." })
    .transform((text) => text.replace(/[\s-]/g, ""))
    .pipe(z.string().regex(/^\d{6}$/, "Enter the 6 digits from the email.")),
  next: nextPathSchema,
});

/** Shows what the link will do. Consumes nothing, so that a mail scanner's visit does not use the link up. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  markRecoveryBrowser(context);
  const active = activeEmail(context);
  const page = { next: searchParams.get("next") ?? "", otherAccount: active };
  const token = searchParams.get("token");
  if (token === null) return data({ ...page, link: null, dead: false });
  const email = await findLinkEmail(context, token);
  if (email === null) return data({ ...page, link: null, dead: true }, { status: 410 });
  const otherAccount = active === email.toLowerCase() ? null : active;
  return data({ ...page, otherAccount, link: { token, account: maskEmail(email) }, dead: false });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const submission = parseWithZod(form, { schema: form.has("token") ? linkSchema : codeSchema });
  if (submission.status !== "success") return data(submission.reply({ hideFields: ["code"] }), { status: 400 });
  const { next, ...proof } = submission.value;
  const email = "token" in proof ? await findLinkEmail(context, proof.token) : proof.email;
  if (email !== null) requireRoomFor(context, email.toLowerCase());
  const recovery = await recoverAccount(context, proof);
  if (recovery.outcome === "failed") {
    const reply = submission.reply({ formErrors: [recovery.message], hideFields: ["token", "code"] });
    return data(reply, { status: recovery.status });
  }
  const destination = redirectTarget(next, { context, fallback: "/" });
  const review = recovery.accountExisted ? buildAccessPath(destination) : destination;
  const { session } = recovery;
  const response = await completeSignIn(context, { session, method: "recovery", destination: review });
  clearRecoveryBrowser(context);
  if (recovery.passwordReplaced) {
    throw redirect(`/reset-password?${new URLSearchParams({ first: "", returnUrl: destination })}`);
  }
  throw response;
}

export default function AccountRecoveryPage() {
  const { next: wanted, otherAccount, link, dead } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { email, code, next }] = useForm<{ email: string; code: string; next: string }>({
    id: "recovery",
    lastResult,
    defaultValue: { next: wanted },
  });
  const errors = dead && !lastResult ? [invalidLinkMessage] : form.errors;
  // The form posts without the query, so the response can only show what the form sent.
  const nextField = next.initialValue ? <input type="hidden" name={next.name} value={next.initialValue} /> : null;
  return (
    <EntryPage
      title="Recover your account"
      lead={
        link ? (
          <EmailAddress whole>{`You’ll be signed in as ${link.account}.`}</EmailAddress>
        ) : (
          "Enter the code from the email an administrator sent you."
        )
      }
    >
      <ErrorSummary id={form.errorId} form={errors} fields={fieldErrors({ email, code })} />
      {otherAccount ? <OtherAccountNotice visitor={otherAccount} other={link?.account} /> : null}
      {link ? (
        <form method="post" action="/auth/recovery">
          <input type="hidden" name="token" value={link.token} />
          {nextField}
          <Button className="w-full">
            <EmailAddress whole>{`Continue as ${link.account}`}</EmailAddress>
          </Button>
        </form>
      ) : (
        <form method="post" action="/auth/recovery" id={form.id} noValidate className="space-y-5">
          {nextField}
          <EmailField field={email} autoComplete="username" required />
          <CodeField field={code} />
          <Button className="w-full">Sign in</Button>
        </form>
      )}
      <p className="text-muted">
        {link
          ? "If you didn’t ask for this, close this page. Nothing has changed."
          : "Didn’t get the email, or has it expired? Ask your administrator for a new one."}{" "}
        <a className="link" href="/login">
          Back to sign in
        </a>
      </p>
    </EntryPage>
  );
}
