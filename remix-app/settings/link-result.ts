import { failureText, type OAuthFailure, parseFailure } from "../oauth/failures.ts";
import { providerLabel } from "../oauth/providers.ts";
import type { SettingsNotice } from "./settings-notice.ts";

/** What became of linking an account, for the card that it began in. */
export interface LinkNotice {
  tone: "good" | "warn";
  text: string;
}

const card = "linked-accounts";

/** The notice of what became of an account at a provider. */
export function linkNotice(provider: string, outcome: OAuthFailure | "linked" | "unlinked"): SettingsNotice {
  return { card, done: `${provider}.${outcome}` };
}

/** What the card says of a notice; null for those of other cards. */
export function linkNoticeText(notice: SettingsNotice | null): LinkNotice | null {
  if (notice?.card !== card) return null;
  const [provider = "", outcome = ""] = notice.done.split(".");
  const label = providerLabel(provider);
  if (outcome === "linked") return { tone: "good", text: `Your ${label} account is linked. You can sign in with it.` };
  if (outcome === "unlinked")
    return { tone: "good", text: `Your ${label} account is unlinked. It no longer signs you in.` };
  const failure = parseFailure(outcome);
  return failure && { tone: "warn", text: failureText(failure, provider) };
}
