import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { CardNotice, Notice } from "../ui/notice.tsx";
import { accessPath } from "./paths.ts";
import type { SettingsNotice } from "./settings-notice.ts";

const words = {
  removed: "The selected items are removed. You confirmed the rest.",
  confirmed: "You confirmed everything that can open your account.",
};

/** The way to the list of everything that can open the account. */
export function AccessCard({
  confirmedAt,
  unconfirmed,
  notice,
}: {
  confirmedAt: string | null;
  /** How many additions are unconfirmed. */
  unconfirmed: number;
  notice: SettingsNotice | null;
}) {
  const told = notice?.card === "access";
  return (
    <Card
      id="access"
      title="What can open this account"
      lead={
        confirmedAt ? (
          <>
            You last checked this <RelativeTime at={confirmedAt} />.
          </>
        ) : (
          "Check every way in, and remove what you do not recognize."
        )
      }
      action={
        <ButtonLink href={accessPath}>
          Check<span className="sr-only"> what can open this account</span>
        </ButtonLink>
      }
    >
      {told || unconfirmed > 0 ? (
        <div className="space-y-4 [&>:last-child]:mb-0">
          <CardNotice notice={notice} card="access" words={words} />
          {unconfirmed > 0 ? (
            <Notice tone="warn">
              {unconfirmed === 1 ? "One way in was" : `${unconfirmed} ways in were`} added without a confirmation of
              your identity. Check {unconfirmed === 1 ? "it" : "them"} and remove what is not yours.
            </Notice>
          ) : null}
        </div>
      ) : null}
    </Card>
  );
}
