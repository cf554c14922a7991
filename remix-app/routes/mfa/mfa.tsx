import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { toFormErrors } from "../../http/field-error.ts";
import { readForm } from "../../http/form.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import { listAuthenticators } from "../../mfa/authenticators.ts";
import { challengeSchema } from "../../mfa/code-schema.ts";
import { requireSecondStepUser } from "../../mfa/open-step.ts";
import { recoveryState } from "../../mfa/recovery-codes.ts";
import { verifyCode } from "../../mfa/verify-code.ts";
import { mayReviewAuthenticators } from "../../session/account-access.ts";
import { revokeSession } from "../../session/sign-out.ts";
import { getUserLabel, secondStepPath } from "../../session/user.ts";
import { buildAccessPath } from "../../settings/paths.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle, useBrand } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { CodeFields } from "../../ui/code-fields.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { OtherWays, SignOutForm } from "../../ui/other-ways.tsx";

export const meta = pageTitle("Enter your code");

/** Opens the second step for people who still have to pass it, and redirects everyone else. */
async function openChallenge(context: AppLoadContext, request: Request) {
  const step = await requireSecondStepUser(context, { request });
  const { mfa } = step.user;
  if (mfa.satisfied) throw redirect(step.destination);
  if (!mfa.enrolled && mfa.policy !== "recovery_in_progress") throw redirect(secondStepPath(mfa, step.destination));
  return step;
}

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, destination } = await openChallenge(context, request);
  const closed = user.mfa.policy === "recovery_in_progress";
  if (closed && (await recoveryState(context, user)).unfinished)
    throw redirect(addReturnUrl("/mfa/recovery", destination));
  const [authenticators, mayReview] = await Promise.all([
    closed ? [] : listAuthenticators(context, user.id),
    mayReviewAuthenticators(context, user),
  ]);
  return {
    email: getUserLabel(user),
    closed,
    authenticators: authenticators.filter(({ verified }) => verified),
    reviewPath: mayReview ? buildAccessPath(destination) : null,
    recoveryPath: addReturnUrl("/mfa/recovery", destination),
    appPath: addReturnUrl("/mfa/app", destination),
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, destination } = await openChallenge(context, request);
  const submission = parseWithZod(await readForm(request, context), { schema: challengeSchema });
  if (submission.status !== "success") return data(submission.reply(), { status: 400 });
  const verification = await verifyCode(context, { user, ...submission.value });
  if (!verification.verified) {
    const reply = submission.reply({ ...toFormErrors("code", verification), hideFields: ["code"] });
    return data(reply, { status: verification.status });
  }
  const state = await context.session.stateOf(verification.session);
  if (state.status !== "alive" || state.facts.policy.satisfied) throw redirect(destination);
  // The code was right, but the account's policy requires a more recent sign-in.
  await revokeSession(context);
  context.session.clear();
  throw redirect(addReturnUrl("/login", destination));
}

export default function ChallengePage() {
  const { email, closed, authenticators, reviewPath, recoveryPath, appPath } = useLoaderData<typeof loader>();
  const product = useBrand().name;
  const lastResult = useActionData<typeof action>();
  const [form, { factorId, code }] = useForm<{ factorId: string; code: string }>({ id: "challenge", lastResult });
  if (closed) {
    return (
      <EntryPage
        title="This account is being reset"
        lead="Its authenticator apps are being removed. You can sign in again once that’s done."
      >
        <p>If it takes more than a few minutes, contact your administrator.</p>
        <SignOutForm />
      </EntryPage>
    );
  }
  return (
    <EntryPage title="Enter your code" lead="Open your authenticator app for the current code.">
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ code })} />
      <p>
        Signing in as <strong className="font-semibold">{email}</strong>.
      </p>
      <AccountForm id={form.id} noValidate className="space-y-5">
        <CodeFields
          authenticators={authenticators}
          chosen={factorId.initialValue}
          factorName={factorId.name}
          code={code}
          autoFocus={lastResult === undefined}
        />
        <Button className="w-full">Verify</Button>
      </AccountForm>
      {reviewPath ? (
        <p>
          Didn’t add this authenticator app?{" "}
          <a className="link" href={reviewPath}>
            Review account access
          </a>{" "}
          and remove it.
        </p>
      ) : null}
      <OtherWays
        ways={[
          {
            to: appPath,
            label: "Approve on your phone",
            hint: `In the ${product} app, on a phone that’s signed in to your account.`,
          },
          {
            to: recoveryPath,
            label: "Use a recovery code",
            hint: "Signs you in once, or removes your authenticator apps so you can add a new one.",
          },
        ]}
        help="Can’t use any of these? Ask your administrator to reset your authenticator apps."
      />
    </EntryPage>
  );
}
