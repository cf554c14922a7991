import type { AccessWay } from "./account-access.ts";
import type { User } from "./user.ts";

/**
 * Returns whether this session proved an item to be its owner's: the session itself, the authenticator whose code it
 * entered, or something that it added after a step-up. A password counts even if the account had no step-up yet.
 */
export function isOwnItem(
  { kind, id, proven, bySession, unconfirmed }: AccessWay,
  { sessionId }: Pick<User, "sessionId">,
): boolean {
  const isCurrentSession = kind === "session" && id === sessionId;
  return isCurrentSession || proven || (bySession === sessionId && (kind === "password" || !unconfirmed));
}
