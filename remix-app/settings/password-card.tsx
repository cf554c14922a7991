import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { CardNotice } from "../ui/notice.tsx";
import type { SettingsNotice } from "./settings-notice.ts";

const words = {
  changed: "Your password is changed. Every other device has been signed out.",
  added: "You have a password now. Every other device has been signed out.",
};

/** Whether the account has a password, and where to change it. */
export function PasswordCard({ exists, notice }: { exists: boolean; notice: SettingsNotice | null }) {
  return (
    <Card
      id="password"
      title="Password"
      lead={
        exists ? "You can sign in with your email and a password." : "This account has none: you sign in another way."
      }
      action={
        <ButtonLink href="/settings/security/password">{exists ? "Change password" : "Set a password"}</ButtonLink>
      }
    >
      <CardNotice notice={notice} card="password" words={words} />
    </Card>
  );
}
