import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { announceAddition, recordEvent } from "../../activity/record-event.ts";
import { toFormErrors } from "../../http/field-error.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { startEnrollmentSchema, verifyEnrollmentSchema } from "../../mfa/code-schema.ts";
import { buildEnrollment, startEnrollment } from "../../mfa/enroll.ts";
import { openEnrollment } from "../../mfa/open-step.ts";
import { createRecoveryCodes, recoveryState } from "../../mfa/recovery-codes.ts";
import { verifyCode } from "../../mfa/verify-code.ts";
import { getUserLabel } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EnrollmentForm } from "../../ui/code-fields.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { ExactTime } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { SignOutForm } from "../../ui/other-ways.tsx";
import { RecoveryCodes } from "../../ui/recovery-codes.tsx";

export const meta = pageTitle("Add an authenticator app");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, destination } = await openEnrollment(context, request);
  const recovered = new URL(request.url).searchParams.has("recovered");
  return { email: getUserLabel(user), due: !user.mfa.satisfied, since: user.mfa.requiredSince, recovered, destination };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, destination } = await openEnrollment(context, request);
  const form = await readForm(request, context);
  const step = form.get("step");

  if (step === "start") {
    const submission = parseWithZod(form, { schema: startEnrollmentSchema });
    if (submission.status !== "success") {
      return data({ enrollment: null, codes: null, result: submission.reply() }, { status: 400 });
    }
    const started = await startEnrollment(context, { user, name: submission.value.name });
    if (started.started) return data({ enrollment: started.enrollment, codes: null, result: undefined });
    const result = submission.reply({ formErrors: [started.message] });
    return data({ enrollment: null, codes: null, result }, { status: started.status });
  }

  const submission = parseWithZod(form, { schema: verifyEnrollmentSchema });
  if (submission.status !== "success") {
    const carried = verifyEnrollmentSchema.omit({ code: true }).safeParse(Object.fromEntries(form));
    if (!carried.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
    const enrollment = buildEnrollment({ ...carried.data, user, issuer: context.env.BRAND_NAME });
    return data({ enrollment, codes: null, result: submission.reply() }, { status: 400 });
  }
  await announceAddition(context, { userId: user.id, target: submission.value.factorId });
  const verification = await verifyCode(context, { user, ...submission.value });
  if (!verification.verified) {
    const result = submission.reply({ ...toFormErrors("code", verification), hideFields: ["code"] });
    const enrollment = buildEnrollment({ ...submission.value, user, issuer: context.env.BRAND_NAME });
    return data({ enrollment, codes: null, result }, { status: verification.status });
  }
  const { name } = submission.value;
  await recordEvent(context, { userId: user.id, kind: "authenticator_added", details: { name } });
  const { left } = await recoveryState(context, user);
  if (left > 0) throw redirect(destination);
  return data({ enrollment: null, codes: await createRecoveryCodes(context, user.id), result: undefined });
}

/** Says that an administrator requires a second factor, and since when sign-ins without one are refused. */
function RequiredSince({ since }: { since: string | null }) {
  return (
    <>
      An administrator requires a second factor for this account: a code from an authenticator app, after each sign-in.
      {since ? (
        <>
          {" "}
          Since <ExactTime at={since} />, sign-ins without one aren’t accepted.
        </>
      ) : null}
    </>
  );
}

export default function EnrollPage() {
  const { email, due, since, recovered, destination } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const [form, { name, code }] = useForm<{ name: string; code: string }>({ id: "enroll", lastResult: answer?.result });
  const summary = <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ name, code })} />;
  const leave = due ? (
    <SignOutForm />
  ) : (
    <ButtonLink href={destination} variant="quiet" className="w-full">
      Not now
    </ButtonLink>
  );

  if (answer?.codes) {
    return (
      <EntryPage
        title="Save your recovery codes"
        lead="Your authenticator app is set up. If you lose it, use one of these codes to sign in and add a new app. These codes won’t be shown again."
        themeSwitch={false}
      >
        <RecoveryCodes codes={answer.codes} email={email} />
        <ButtonLink href={destination} variant="primary" className="w-full print:hidden">
          I’ve saved them
        </ButtonLink>
      </EntryPage>
    );
  }
  if (answer?.enrollment) {
    return (
      <EntryPage title="Set up your authenticator app" themeSwitch={false}>
        {summary}
        <EnrollmentForm formId={form.id} enrollment={answer.enrollment} code={code} />
        {leave}
      </EntryPage>
    );
  }
  return (
    <EntryPage
      title="Add an authenticator app"
      lead={
        due ? (
          <RequiredSince since={since} />
        ) : (
          "You’ll be asked for a code from it when you sign in, so a stolen password isn’t enough."
        )
      }
    >
      {recovered ? (
        <Notice tone="good">
          Your authenticator apps were removed, and all other devices are signed out. Add the app you use now.
        </Notice>
      ) : null}
      {summary}
      <p>
        You’re adding it to <strong className="font-semibold">{email}</strong>. Any app for time-based codes works, such
        as 1Password, Aegis, Google Authenticator or Microsoft Authenticator.
      </p>
      <AccountForm id={form.id} noValidate className="space-y-5">
        <input type="hidden" name="step" value="start" />
        <Field
          field={name}
          label="Name (optional)"
          hint="Use a name that tells your apps apart, such as “Work phone”."
          type="text"
          autoComplete="off"
          maxLength={60}
        />
        <Button className="w-full">Set up app</Button>
      </AccountForm>
      {leave}
    </EntryPage>
  );
}
