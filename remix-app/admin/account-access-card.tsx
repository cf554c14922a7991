import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { ExactTime } from "../ui/moment.tsx";
import { Notice } from "../ui/notice.tsx";
import { accountSteps, listAccountSteps } from "./account-steps.ts";
import type { Account } from "./accounts.ts";

/** The identity backend requires an end of each ban, so a permanent ban ends after this year. */
const lastYear = 2100;

/** Returns whether a ban lasts until an admin lifts it. @param bannedUntil RFC 3339, or "infinity" */
export function isPermanentBan(bannedUntil: string): boolean {
  return !(new Date(bannedUntil).getUTCFullYear() <= lastYear);
}

/** Shows whether an account is banned or will be deleted, with the possible changes. */
export function AccessCard({ account, oneself }: { account: Account; oneself: boolean }) {
  const { id, bannedUntil, deletion } = account;
  const steps = oneself ? [] : listAccountSteps(account).filter((step) => step !== "sign-out");
  return (
    <Card
      id="access"
      title="Access"
      lead={
        oneself
          ? "Another admin has to ban or delete your own account."
          : "The reason of a ban or deletion is emailed to the owner."
      }
    >
      <div className="space-y-4">
        {deletion ? <DeletionNotice deletion={deletion} /> : null}
        {bannedUntil && !deletion ? (
          <Notice tone="warn">
            {isPermanentBan(bannedUntil) ? (
              "This account is banned until an admin lifts the ban."
            ) : (
              <>
                This account is banned until <ExactTime at={bannedUntil} />.
              </>
            )}
          </Notice>
        ) : null}
        <div className="flex flex-wrap gap-3 empty:hidden">
          {steps.map((step) => (
            <ButtonLink
              key={step}
              href={`/admin/users/${id}/${step}`}
              variant={accountSteps[step].destroys ? "danger" : "secondary"}
            >
              {accountSteps[step].title}
            </ButtonLink>
          ))}
        </div>
      </div>
    </Card>
  );
}

function DeletionNotice({ deletion: { dueAt, reason, blockers } }: { deletion: NonNullable<Account["deletion"]> }) {
  return (
    <Notice tone="warn">
      <p>
        This account’s deletion is scheduled for <ExactTime at={dueAt} />: {reason}
      </p>
      {blockers.length > 0 ? (
        <p>
          It could not be deleted, because these workspaces have no other owner:{" "}
          {blockers.map(({ name }) => name).join(", ")}. It is deleted as soon as they have one.
        </p>
      ) : null}
    </Notice>
  );
}
