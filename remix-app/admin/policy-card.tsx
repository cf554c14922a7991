import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { Notice } from "../ui/notice.tsx";
import type { AccountPolicy } from "./mfa-policy.ts";
import { openSteps, policySteps } from "./policy-step.ts";

const leads = {
  optional: "MFA is this account's own choice.",
  required: "This account needs a second factor, proven after the last change, everywhere.",
  recovery_in_progress: "A reset of the authenticators was begun. Until it is finished, nobody can use the account.",
  malformed: "Nobody can read this account's policy, so that it is closed. Requiring MFA writes it anew.",
} as const;

/** An account's policy: what can be changed, and where it cannot, why. */
export function PolicyCard({ id, policy }: { id: string; policy: Pick<AccountPolicy, "state" | "locks"> }) {
  const { state, locks } = policy;
  const reasons = [...new Set([locks.policy, locks.reset].filter((lock) => lock !== null))];
  return (
    <Card id="policy" title="Second factor" lead={leads[state]}>
      <div className="space-y-4">
        {state === "recovery_in_progress" ? (
          <Notice tone="warn">The reset is half done. Begin it again: it goes on where it stopped.</Notice>
        ) : null}
        {reasons.map((reason) => (
          <Notice key={reason}>{reason}</Notice>
        ))}
        <div className="flex flex-wrap gap-3">
          {openSteps(policy).map((step) => (
            <ButtonLink key={step} href={`/admin/users/${id}/mfa/${step}`} variant="danger">
              {step === "reset" && state === "recovery_in_progress" ? "Finish the reset" : policySteps[step].title}
            </ButtonLink>
          ))}
        </div>
      </div>
    </Card>
  );
}
