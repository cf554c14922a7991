import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { CardNotice, Notice } from "../ui/notice.tsx";
import { accessPath } from "./paths.ts";
import type { SettingsNotice } from "./settings-notice.ts";

const noticeTexts = {
  removed: "The selected items were removed. Everything else was kept.",
  confirmed: "You reviewed account access and kept everything.",
};

/** Links to the list of everything that can open the account or act for it. */
export function AccessCard({
  confirmedAt,
  unconfirmed,
  notice,
}: {
  confirmedAt: string | null;
  /** The number of unconfirmed sign-in methods. */
  unconfirmed: number;
  notice: SettingsNotice | null;
}) {
  const hasNotice = notice?.card === "access";
  return (
    <Card
      id="access"
      title="Account access"
      lead={
        confirmedAt ? (
          <>
            You last reviewed account access <RelativeTime at={confirmedAt} />.
          </>
        ) : (
          "Review everything that can open your account or act for it, and remove anything you don’t recognize."
        )
      }
      action={
        <ButtonLink href={accessPath}>
          Review<span className="sr-only"> account access</span>
        </ButtonLink>
      }
    >
      {hasNotice || unconfirmed > 0 ? (
        <div className="space-y-4 [&>:last-child]:mb-0">
          <CardNotice notice={notice} card="access" words={noticeTexts} />
          {unconfirmed > 0 ? (
            <Notice tone="warn">
              {unconfirmed === 1
                ? "One sign-in method was added, and we couldn’t confirm it was you. Review it, and remove it if it isn’t yours."
                : `${unconfirmed} sign-in methods were added, and we couldn’t confirm it was you. Review them, and remove any that aren’t yours.`}
            </Notice>
          ) : null}
        </div>
      ) : null}
    </Card>
  );
}
