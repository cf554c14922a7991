import { Monitor, Smartphone } from "lucide-react";
import { methodLabel } from "../activity/method-label.ts";
import { addReturnUrl } from "../http/redirect-target.ts";
import { securityPath } from "../mfa/security-path.ts";
import type { AccountSession } from "../session/account-sessions.ts";
import { AccountForm } from "../ui/account-form.tsx";
import { Button } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { countText } from "../ui/count-text.ts";
import { DotSeparated } from "../ui/facts.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { CardNotice } from "../ui/notice.tsx";
import { PageNav } from "../ui/page-nav.tsx";
import { accessPath } from "./paths.ts";
import type { SettingsNotice } from "./settings-notice.ts";

const noticeTexts = {
  one: "Device signed out.",
  others: "All other devices are signed out.",
  over: "That device was already signed out.",
};
const actionPath = "/settings/security/sessions";

/** Lists the account's sessions, the current one first, with buttons to sign out the others. */
export function SessionsCard({
  sessions,
  count,
  others,
  nextCursor,
  notice,
}: {
  /** One page of sessions. */
  sessions: readonly AccountSession[];
  /** The number of sessions. Counting stops at 1,001. */
  count: number;
  /** The number of apps, devices and coding agents whose access does not end with the current session. */
  others: number;
  nextCursor: string | null;
  notice: SettingsNotice | null;
}) {
  return (
    <Card
      id="sessions"
      title="Sessions"
      lead="Devices signed in to your account. If you don’t recognize one, sign it out and change your password."
      action={
        count > 1 || others > 0 ? (
          <AccountForm action={actionPath}>
            <Button variant="secondary" name="session" value="others">
              Sign out all others
            </Button>
          </AccountForm>
        ) : null
      }
    >
      <CardNotice notice={notice} card="sessions" words={noticeTexts} />
      <ul className="divide-y divide-line">
        {sessions.map((session) => (
          <SessionLine key={session.id} session={session} />
        ))}
      </ul>
      {count > sessions.length ? (
        <p className="mt-4 text-muted">
          {sessions.length} of {countText(count)} sessions.
        </p>
      ) : null}
      <PageNav label="Pages of sessions" nextCursor={nextCursor} param="sessions" card="sessions" />
      {others > 0 ? (
        <p className="mt-4 text-muted">
          {countText(others)} more {others === 1 ? "app, device or coding agent" : "apps, devices and coding agents"}{" "}
          can act for your account. “Sign out all others” disconnects {others === 1 ? "it" : "them"} too.{" "}
          <a className="link" href={accessPath}>
            Review account access
          </a>
        </p>
      ) : null}
      <p className="mt-4 text-muted">
        About to change security settings?{" "}
        <a className="link" href={addReturnUrl("/qr", securityPath)}>
          Confirm it’s you with your phone
        </a>
        .
      </p>
    </Card>
  );
}

function SessionLine({ session }: { session: AccountSession }) {
  const { id, current, device, place, ip, aal, method, createdAt, lastSeenAt } = session;
  const Icon = /\b(iOS|Android)\b/.test(device) ? Smartphone : Monitor;
  const how = [method && methodLabel(method), aal === "aal1" ? null : "second step"].filter(Boolean).join(" and ");
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-2 py-3 first:pt-0 last:pb-0">
      <Icon aria-hidden="true" className="mt-0.5 size-4 shrink-0 text-muted" />
      <div className="min-w-0 flex-1 basis-44">
        <p className="flex flex-wrap items-baseline gap-x-2">
          <span className="font-medium">{device}</span>
          {current ? <span className="font-medium text-good text-small">This device</span> : null}
        </p>
        {place || ip ? (
          <p className="wrap-anywhere text-muted">
            <DotSeparated facts={[place, ip]} />
          </p>
        ) : null}
        <p className="text-muted">
          {current ? (
            "Active now"
          ) : (
            <>
              Last active <RelativeTime at={lastSeenAt} />
            </>
          )}
          {" · "}Signed in <RelativeTime at={createdAt} />
          {how ? ` · ${how}` : ""}
        </p>
      </div>
      {current ? null : (
        <AccountForm action={actionPath} className="max-sm:ml-7">
          <Button variant="secondary" name="session" value={id} aria-label={`Sign out ${device}`}>
            Sign out
          </Button>
        </AccountForm>
      )}
    </li>
  );
}
