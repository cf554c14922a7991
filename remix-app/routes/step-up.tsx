import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { Form, type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import {
  type ActionFunctionArgs,
  type AppLoadContext,
  data,
  type LoaderFunctionArgs,
  redirect,
} from "@remix-run/server-runtime";
import { readForm } from "../http/form.ts";
import type { RouteHandle } from "../http/route-table.ts";
import { botChallengeField } from "../identity/bot-challenge.ts";
import { completeSignIn } from "../identity/complete-sign-in.ts";
import { secondStepPath } from "../identity/second-step.ts";
import { isFresh } from "../identity/user.ts";
import { listAuthenticators } from "../mfa/authenticators.ts";
import { challengeSchema } from "../mfa/code-schema.ts";
import { openStep } from "../mfa/open-step.ts";
import { signInAgain, signInAgainSchema } from "../mfa/sign-in-again.ts";
import { verifyCode } from "../mfa/verify-code.ts";
import { Button, buttonClass } from "../ui/button.tsx";
import { CodeFields } from "../ui/code-fields.tsx";
import { EntryPage } from "../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../ui/error-summary.tsx";
import { PasswordField } from "../ui/field.tsx";
import { SignOutForm } from "../ui/other-ways.tsx";

export const handle: RouteHandle = { hydrate: false };

export const meta: MetaFunction = () => [{ title: "Confirm that it is you · Gatehouse" }];

/** For whom a code or a sign-in is due again; who has an authenticator and has not used it yet goes to the challenge. */
async function openStepUp(context: AppLoadContext, request: Request) {
  const step = await openStep(context, { request });
  const { mfa } = step.user;
  if (!mfa.satisfied && (mfa.enrolled || mfa.policy === "recovery_in_progress")) {
    throw redirect(secondStepPath(mfa, step.destination));
  }
  if (isFresh(step.user)) throw redirect(step.destination);
  return step;
}

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, destination } = await openStepUp(context, request);
  const listed = user.mfa.enrolled ? await listAuthenticators(context) : [];
  return { email: user.email, authenticators: listed.filter(({ verified }) => verified), destination };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, destination } = await openStepUp(context, request);
  const form = await readForm(request, context);
  if (user.mfa.enrolled) {
    const submission = parseWithZod(form, { schema: challengeSchema });
    if (submission.status !== "success") return data(submission.reply(), { status: 400 });
    const verification = await verifyCode(context, { user, ...submission.value });
    if (verification.verified) throw redirect(destination);
    const reply = submission.reply({ formErrors: [verification.message], hideFields: ["code"] });
    return data(reply, { status: verification.status });
  }
  const submission = parseWithZod(form, { schema: signInAgainSchema });
  if (submission.status !== "success") return data(submission.reply({ hideFields: ["password"] }), { status: 400 });
  const failure = await signInAgain(context, {
    user,
    password: submission.value.password,
    botChallenge: form.get(botChallengeField),
  });
  if (!failure) throw await completeSignIn(context, { method: "password", destination });
  const reply = submission.reply({ formErrors: [failure.message], hideFields: ["password"] });
  return data(reply, { status: failure.status });
}

export default function StepUpPage() {
  const { email, authenticators, destination } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { factorId, code, password }] = useForm<{ factorId: string; code: string; password: string }>({
    id: "step-up",
    lastResult,
  });
  const byCode = authenticators.length > 0;
  return (
    <EntryPage
      title="Confirm that it is you"
      lead={`This changes how your account is protected, so ${byCode ? "a code" : "a sign-in"} of the last 10 minutes is needed.`}
    >
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors(byCode ? { code } : { password })} />
      <p>
        Signed in as <strong className="font-semibold">{email}</strong>.
      </p>
      <Form method="post" id={form.id} noValidate data-once className="space-y-5">
        {byCode ? (
          <CodeFields
            authenticators={authenticators}
            chosen={factorId.initialValue}
            factorName={factorId.name}
            code={code}
            autoFocus={lastResult === undefined}
          />
        ) : (
          <>
            {/* Password managers look the password up under this name. */}
            <input type="text" autoComplete="username" value={email} readOnly hidden />
            <PasswordField
              id={password.id}
              name={password.name}
              label="Password"
              autoComplete="current-password"
              required
              errorId={password.errorId}
              errors={password.errors}
            />
          </>
        )}
        <Button className="w-full">Confirm</Button>
      </Form>
      <a href={destination === "/" ? "/" : "/settings/security"} className={`${buttonClass("quiet")} w-full`}>
        Cancel
      </a>
      <SignOutForm />
    </EntryPage>
  );
}
