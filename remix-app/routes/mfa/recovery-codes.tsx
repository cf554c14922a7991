import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { createRecoveryCodes, recoveryState } from "../../mfa/recovery-codes.ts";
import { securityPath } from "../../mfa/security-path.ts";
import { getUserLabel, requireFreshUser } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { countOf } from "../../ui/format-amount.ts";
import { RecoveryCodes } from "../../ui/recovery-codes.tsx";

export const meta = pageTitle("Recovery codes");

/** Requires an authenticator, because recovery codes replace authenticators and have no other use. */
async function requireEnrolledUser(context: AppLoadContext, request: Request) {
  const user = await requireFreshUser(context, request);
  if (!user.mfa.enrolled) throw redirect(securityPath);
  return user;
}

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireEnrolledUser(context, request);
  const { left } = await recoveryState(context, user);
  return { email: getUserLabel(user), left };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireEnrolledUser(context, request);
  await readForm(request, context);
  const { left } = await recoveryState(context, user);
  return data({ codes: await createRecoveryCodes(context, user.id), replaced: left > 0 });
}

export default function RecoveryCodesPage() {
  const { email, left } = useLoaderData<typeof loader>();
  const created = useActionData<typeof action>();
  if (created) {
    return (
      <EntryPage
        title="Save your recovery codes"
        lead={`If you lose your authenticator app, use one of these codes to sign in and add a new app. These codes won’t be shown again.${created.replaced ? " Your earlier codes no longer work." : ""}`}
        themeSwitch={false}
      >
        <RecoveryCodes codes={created.codes} email={email} />
        <ButtonLink href={securityPath} variant="primary" className="w-full print:hidden">
          I’ve saved them
        </ButtonLink>
      </EntryPage>
    );
  }
  return (
    <EntryPage
      title="Create new recovery codes"
      lead={
        left === 0
          ? "You have no recovery codes left. If you lose your authenticator app, you’ll need one to sign in and add a new app."
          : `You have ${countOf(left, "code")} left. If you create new codes, the old ones stop working.`
      }
    >
      <AccountForm>
        <Button className="w-full">Create 10 codes</Button>
      </AccountForm>
      <ButtonLink href={securityPath} variant="quiet" className="w-full">
        Cancel
      </ButtonLink>
    </EntryPage>
  );
}
