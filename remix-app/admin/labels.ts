import { countText } from "../ui/count-text.ts";
import { formatExactUsd } from "../ui/format-amount.ts";
import type { PolicyState } from "./accounts.ts";
import type { RecoveryLock } from "./recovery.ts";

/** Returns a number with its noun: "1 session", "3 sessions". */
export function formatQuantity(number: number, noun: string): string {
  return `${countText(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Formats a price without trailing zeros, but with at least two decimals. */
export function formatPriceUsd(amount: string | null): string {
  return amount === null ? "–" : formatExactUsd(amount.replace(/(\.\d\d\d*?)0+$/, "$1"));
}

/** Labels of an account's policy states. */
export const policyLabels: Record<PolicyState, string> = {
  optional: "Optional",
  required: "Required",
  recovery_in_progress: "Being reset",
  malformed: "Unreadable",
};

const recoveryEventLabels: Record<string, string> = {
  create: "Override created",
  revoke: "Override revoked",
  send: "Recovery email",
  consume: "Recovery email used",
  reject: "Recovery attempt refused",
  unban_attempt: "Lifted the ban",
  user_create_attempt: "Created the account",
  login_bypass: "Sign-in under an override",
};

/** Returns the label of a recovery event, with its outcome. */
export function recoveryEventLabel({ kind, outcome }: { kind: string; outcome: string }): string {
  const label = recoveryEventLabels[kind] ?? kind.replaceAll("_", " ");
  return label.endsWith(` ${outcome}`) ? label : `${label} (${outcome.replaceAll("_", " ")})`;
}

const attemptLabels: Record<string, string> = {
  password: "passwords",
  code: "second-factor codes",
  sign_in_code: "emailed sign-in codes",
  mail: "emails",
  sign_up: "sign-ups",
  override_password: "passwords under an override",
  credential: "changes of a password or email",
  handoff: "sign-ins to apps",
  user_code: "device codes",
  direct_password: "direct password sign-ins",
  direct_code: "direct second-factor codes",
};

/** Returns the label of a kind of attempt, even of a kind that only a later version knows. */
export function attemptLabel(action: string): string {
  return attemptLabels[action] ?? `${action.replaceAll("_", " ")} attempts`;
}

const consequences: Record<string, string> = {
  refuse: "then refused",
  challenge: "then a bot challenge",
  refuse_new: "then refused without a bot challenge",
  block: "then blocked",
};

/** Describes what limits sign-ins with an email: "12 of 20 passwords an hour, then a bot challenge". */
export function lockSentence(lock: RecoveryLock): string {
  switch (lock.kind) {
    case "ban":
      return "The account is banned";
    case "codes":
      return lock.until ? "Recovery email codes are locked" : formatQuantity(lock.wrong, "wrong recovery email code");
    case "block":
      return `The IP address ${lock.address} is blocked`;
    case "limit":
      return limitSentence(lock);
  }
}

function limitSentence(limit: Extract<RecoveryLock, { kind: "limit" }>): string {
  const { action, scope, used, attempts, perSeconds, whenEmpty } = limit;
  const what = attemptLabel(action);
  const minutes = Math.round(perSeconds / 60);
  const per =
    minutes === 60 ? "an hour" : minutes > 60 ? `in ${Math.round(minutes / 60)} hours` : `in ${minutes} minutes`;
  const from = scope === "pair" ? " from one IP address" : "";
  return `${used} of ${attempts} ${what} ${per}${from}, ${consequences[whenEmpty] ?? whenEmpty}`;
}
