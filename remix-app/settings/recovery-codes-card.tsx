import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { Notice } from "../ui/notice.tsx";

const fewCodes = 3;

/** Shows how many recovery codes are left, with a link to create new ones. */
export function RecoveryCodesCard({ left, createdAt }: { left: number; createdAt: string | null }) {
  return (
    <Card
      id="recovery-codes"
      title="Recovery codes"
      lead="If you lose your authenticator app, use a recovery code to sign in and add a new app."
      action={<ButtonLink href="/mfa/recovery-codes">Create new codes</ButtonLink>}
    >
      {left <= fewCodes ? (
        <Notice tone="warn">
          {left === 0
            ? "You have no codes left."
            : left === 1
              ? "You have 1 code left."
              : `You have ${left} codes left.`}{" "}
          Create new codes so you aren’t locked out if you lose your authenticator app.
        </Notice>
      ) : (
        <p>
          {left} codes left
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
