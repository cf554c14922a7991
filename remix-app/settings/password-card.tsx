import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { CardNotice } from "../ui/notice.tsx";
import type { SettingsNotice } from "./settings-notice.ts";

const noticeTexts = {
  changed: "Password changed. You’ve been signed out on all other devices.",
  added: "Password set. You’ve been signed out on all other devices.",
};

/** Shows whether the account has a password, with a link to change it. */
export function PasswordCard({ exists, notice }: { exists: boolean; notice: SettingsNotice | null }) {
  return (
    <Card
      id="password"
      title="Password"
      lead={exists ? "Sign in with your email and password." : "You don’t have a password. You sign in another way."}
      action={<ButtonLink href="/settings/security/password">{exists ? "Change password" : "Set password"}</ButtonLink>}
    >
      <CardNotice notice={notice} card="password" words={noticeTexts} />
    </Card>
  );
}
