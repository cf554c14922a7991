import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { Notice } from "../ui/notice.tsx";

const fewCodes = 3;

/** How many recovery codes are left, and new ones. */
export function RecoveryCodesCard({ left, createdAt }: { left: number; createdAt: string | null }) {
  return (
    <Card
      id="recovery-codes"
      title="Recovery codes"
      lead="If you lose your authenticator app, one of them lets you set up another."
      action={<ButtonLink href="/mfa/recovery-codes">Create new codes</ButtonLink>}
    >
      {left <= fewCodes ? (
        <Notice tone="warn">
          {left === 0 ? "No code is left." : left === 1 ? "One code is left." : `${left} codes are left.`} Create new
          ones, or losing your app may lock you out.
        </Notice>
      ) : (
        <p>
          {left} unused codes
          {createdAt ? (
            <span className="text-muted">
              , created <RelativeTime at={createdAt} />
            </span>
          ) : null}
        </p>
      )}
    </Card>
  );
}
