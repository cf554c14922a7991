import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { findRecovery, getRecoveryRestriction, readRecoveryEmail } from "../../admin/recovery.ts";
import { BlocksCard, OverridesCard, RecoveryEventsCard } from "../../admin/recovery-cards.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { EmailField } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Recovery · Console");

const doneWords: Record<string, string> = {
  new: "Override created. It’s in effect now.",
  send: "We sent the recovery email. Its link and code expire in 15 minutes and work once. Earlier recovery emails no longer work.",
  revoke: "Override revoked. Recovery emails sent with the override no longer work.",
};

export async function loader({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const typedEmail = searchParams.get("email");
  const email = readRecoveryEmail(request);
  const done = searchParams.get("done") ?? "";
  return {
    typedEmail,
    overview: email === null ? null : await findRecovery(context, email),
    lock: email === null ? null : getRecoveryRestriction(admin, email),
    done: Object.hasOwn(doneWords, done) ? done : null,
  };
}

export default function ConsoleRecoveryPage() {
  const { typedEmail, overview, lock, done } = useLoaderData<typeof loader>();
  return (
    <Page title="Recovery" lead="Help someone who is locked out of their account.">
      {done ? <Notice tone="good">{doneWords[done]}</Notice> : null}
      <Card title="Find an account by email">
        <search>
          <form method="get" className="flex max-w-120 flex-wrap items-end gap-3">
            <div className="min-w-48 flex-1">
              <EmailField
                name="email"
                autoComplete="off"
                defaultValue={typedEmail ?? ""}
                error={typedEmail && !overview ? "Enter a whole email address, such as name@example.com" : undefined}
              />
            </div>
            <Button variant="secondary">Search</Button>
          </form>
        </search>
        {overview ? null : (
          <p className="mt-3 text-muted">
            Search for the person’s email to see what’s blocking it. You can then send them a recovery email with a
            sign-in link. If they have no account, using the link creates one.
          </p>
        )}
      </Card>
      {overview ? (
        <>
          <h2 className="font-semibold text-title">
            <EmailAddress>{overview.email}</EmailAddress>
          </h2>
          <OverridesCard overview={overview} lock={lock} />
          <BlocksCard overview={overview} />
          <RecoveryEventsCard events={overview.events} />
        </>
      ) : null}
    </Page>
  );
}
