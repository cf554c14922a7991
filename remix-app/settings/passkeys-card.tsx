import { KeyRound } from "lucide-react";
import { maxPasskeys } from "../passkeys/limits.ts";
import type { PasskeysOverview } from "../passkeys/overview.ts";
import { PasskeySignals } from "../passkeys/passkey-signals.tsx";
import type { Passkey } from "../passkeys/passkeys.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { CardNotice, Notice } from "../ui/notice.tsx";
import type { SettingsNotice } from "./settings-notice.ts";
import { UnconfirmedMark } from "./unconfirmed-mark.tsx";

const noticeTexts = {
  added: "Passkey added. You can now sign in with it.",
  renamed: "Passkey renamed.",
  deleted: "Passkey deleted. You can no longer sign in with it.",
};

/** Lists the account's passkeys, with links to change them. */
export function PasskeysCard({
  passkeys,
  signals,
  unconfirmed,
  notice,
}: PasskeysOverview & { unconfirmed: readonly string[]; notice: SettingsNotice | null }) {
  const full = passkeys.length >= maxPasskeys;
  return (
    <Card
      id="passkeys"
      title="Passkeys"
      lead="Sign in with your fingerprint, face or security key instead of a password."
      action={full ? null : <ButtonLink href="/settings/security/passkeys/new">Add passkey</ButtonLink>}
    >
      <CardNotice notice={notice} card="passkeys" words={noticeTexts} />
      <div className="space-y-4">
        {full ? <Notice>You have {maxPasskeys} passkeys, the maximum. Delete one to add another.</Notice> : null}
        {passkeys.length === 0 ? (
          <p className="text-muted">No passkeys yet. Add one on each device you sign in from.</p>
        ) : null}
        {passkeys.length > 0 ? (
          <ul className="-my-3 divide-y divide-line">
            {passkeys.map((passkey) => (
              <PasskeyItem key={passkey.id} passkey={passkey} unconfirmed={unconfirmed.includes(passkey.id)} />
            ))}
          </ul>
        ) : null}
      </div>
      <PasskeySignals signals={signals} />
    </Card>
  );
}

function PasskeyItem({ passkey, unconfirmed }: { passkey: Passkey; unconfirmed: boolean }) {
  const { id, name, provider, device, createdAt, lastUsedAt } = passkey;
  const address = `/settings/security/passkeys/${id}`;
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3">
      <KeyRound aria-hidden="true" className="size-5 shrink-0 text-muted" />
      <div className="min-w-40 flex-1">
        <p className="break-words font-medium">
          {name} {unconfirmed ? <UnconfirmedMark /> : null}
        </p>
        <p className="text-muted text-small">
          {provider && provider !== name ? `${provider} · ` : null}
          Added <RelativeTime at={createdAt} />
          {device && device !== name ? ` from ${device}` : null} ·{" "}
          {lastUsedAt ? (
            <>
              Last used <RelativeTime at={lastUsedAt} />
            </>
          ) : (
            "Never used"
          )}
        </p>
      </div>
      <div className="flex flex-wrap gap-2">
        <ButtonLink href={`${address}/rename`}>
          Rename<span className="sr-only"> {name}</span>
        </ButtonLink>
        <ButtonLink href={`${address}/delete`}>
          Delete<span className="sr-only"> {name}</span>
        </ButtonLink>
      </div>
    </li>
  );
}
