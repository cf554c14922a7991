import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { changeEmailSchema, requestEmailChange } from "../../session/email-change.ts";
import { takeForm } from "../../session/saved-form.ts";
import { requireFreshUser } from "../../session/user.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Change email");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireFreshUser(context, request);
  return { current: user.email, typed: takeForm(context, { request, userId: user.id }) };
}

/**
 * Sends a confirmation link to the new and, if any, the current address. The email changes after every address is
 * confirmed.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request, { keepsForm: true });
  const submission = parseWithZod(await readForm(request, context), { schema: changeEmailSchema });
  if (submission.status !== "success") return data(submission.reply(), { status: 400 });
  const answer = await requestEmailChange(context, { user, email: submission.value.email });
  if (answer.status === "refused") {
    const { httpStatus, formErrors, fieldErrors } = answer;
    const reply = { ...(formErrors ? { formErrors } : {}), ...(fieldErrors ? { fieldErrors } : {}) };
    return data(submission.reply(reply), { status: httpStatus });
  }
  leaveNotice(context, { card: "email", done: "sent" });
  throw redirect("/settings/profile#email", 303);
}

export default function ChangeEmailPage() {
  const { current, typed } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { email }] = useForm<{ email: string }>({ id: "change-email", lastResult, defaultValue: typed });
  return (
    <Page title="Change email">
      <Card
        title="New email"
        lead={
          current ? (
            <>
              Your email is <strong className="font-semibold text-ink">{current}</strong>. We’ll send a link to both
              addresses. Your email changes once both are confirmed.
            </>
          ) : (
            "We’ll send a link to this address. Your email is set once you confirm it."
          )
        }
      >
        <div className="max-w-100 space-y-5">
          <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ email })} />
          <AccountForm id={form.id} noValidate className="space-y-5">
            <Field
              field={email}
              label="New email"
              type="email"
              autoComplete="email"
              autoCapitalize="none"
              spellCheck={false}
              required
            />
            <div className="flex flex-wrap gap-3">
              <Button>{current ? "Change email" : "Add email"}</Button>
              <ButtonLink href="/settings/profile#email">Cancel</ButtonLink>
            </div>
          </AccountForm>
        </div>
      </Card>
    </Page>
  );
}
