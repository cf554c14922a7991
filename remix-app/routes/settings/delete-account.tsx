import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { type DeletionBlocker, deleteAccount, deletionBlockers } from "../../account-data/delete-account.ts";
import { accountDeletedMail } from "../../activity/notice-mail.ts";
import { readForm } from "../../http/form.ts";
import { mailSite } from "../../mail/mail-body.ts";
import { sendMail } from "../../mail/send-mail.ts";
import { requireFreshUser } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Delete account");

/** Returns the text to type as confirmation: the email, if the account has one. */
const confirmationOf = ({ email }: { email: string }) => email || "delete my account";

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const blockers = await deletionBlockers(context, user.id);
  return { email: user.email, blockers };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const typed = String((await readForm(request, context)).get("confirmation") ?? "").trim();
  if (typed.toLowerCase() !== confirmationOf(user).toLowerCase()) {
    const message = `This doesn’t match ${user.email ? "your email" : "the confirmation text"}. Nothing was deleted.`;
    return data({ typed, message }, { status: 400 });
  }
  const { env } = context;
  const { deleted } = await deleteAccount(context, user.id);
  if (!deleted)
    return data({ typed, message: "A workspace needs another owner first. Nothing was deleted." }, { status: 409 });
  context.session.clear();
  if (user.email) await sendMail(env, accountDeletedMail({ to: user.email, when: new Date() }, mailSite(env)));
  throw redirect("/login?accountDeleted");
}

function Blockers({ blockers }: { blockers: DeletionBlocker[] }) {
  return (
    <Card
      title={
        blockers.length === 1 ? "This workspace needs another owner first" : "These workspaces need another owner first"
      }
      lead={`You’re the only owner, and ${blockers.length === 1 ? "it has" : "they have"} other members.`}
    >
      <ul>
        {blockers.map(({ workspaceId, name, members }) => (
          <li key={workspaceId} className="flex flex-wrap justify-between gap-3 border-line py-2.5 not-first:border-t">
            <span className="min-w-0 font-medium">{name}</span>
            <a className="link" href={`/workspaces/${workspaceId}/settings`}>
              Transfer or delete workspace<span className="sr-only"> {name}</span> ({members} members)
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
}

export default function DeleteAccountPage() {
  const { email, blockers } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  return (
    <Page
      title="Delete account"
      lead={blockers.length > 0 ? undefined : "This permanently deletes your account. It can’t be undone."}
    >
      {blockers.length > 0 ? (
        <>
          <Blockers blockers={blockers} />
          <ButtonLink href="/settings/security#danger-zone">Back to security</ButtonLink>
        </>
      ) : (
        <Card
          danger
          title="What happens"
          lead="You’re signed out everywhere. Workspaces without other members are deleted, and their API keys stop working. Usage and billing records are kept, without your name."
        >
          <AccountForm noValidate className="max-w-108 space-y-4">
            <ErrorSummary id="delete-error" fields={{ confirmation: failed?.message }} />
            <Field
              name="confirmation"
              label={`Type “${confirmationOf({ email })}” to confirm`}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              required
              defaultValue={failed?.typed}
              error={failed?.message}
            />
            <div className="flex flex-wrap gap-3">
              <Button variant="danger">Delete account</Button>
              <ButtonLink href="/settings/security#danger-zone">Cancel</ButtonLink>
            </div>
          </AccountForm>
        </Card>
      )}
    </Page>
  );
}
