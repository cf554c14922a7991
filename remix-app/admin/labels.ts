import { countText } from "../ui/count-text.ts";
import { formatExactUsd } from "../ui/format-amount.ts";
import type { PolicyState } from "./accounts.ts";

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

/** Describes how much of a rate limit an email has used: "12 of 20 passwords an hour, then a bot challenge". */
export function counterSentence(counter: {
  action: string;
  used: number;
  attempts: number;
  perSeconds: number;
  whenEmpty: string;
}): string {
  const { action, used, perSeconds, whenEmpty } = counter;
  const what = attemptLabel(action);
  const minutes = Math.round(perSeconds / 60);
  const per =
    minutes === 60 ? "an hour" : minutes > 60 ? `in ${Math.round(minutes / 60)} hours` : `in ${minutes} minutes`;
  return `${used} of ${counter.attempts} ${what} ${per}, ${consequences[whenEmpty] ?? whenEmpty}`;
}

/**
 * The only action in this log that an account's owner takes. Its actor has no email, because deleting the account also
 * deletes the owner's identity.
 */
const accountDeletedAction = "account.deleted";

/** The only action in this log that the system takes by itself. */
const automaticImportAction = "costs.import_automatically";

/** Labels of the log's actions. */
const actionLabels: Record<string, string> = {
  "admin.grant": "Made an account an admin",
  "admin.revoke": "Removed an admin",
  "finance.grant": "Gave an account the platform’s books",
  "finance.revoke": "Withdrew the platform’s books from an account",
  "required_mfa.require": "Required MFA",
  "required_mfa.make_optional": "Made MFA optional",
  "required_mfa.begin_reset": "Began to reset the authenticators",
  "required_mfa.finish_reset": "Finished resetting the authenticators",
  "recovery.create": "Created a recovery override",
  "recovery.send": "Sent a recovery email",
  "recovery.revoke": "Revoked a recovery override",
  "ai_keys.approve": "Approved keys",
  "ai_keys.withdraw": "Withdrew the approval of keys",
  "ai_keys.decline": "Declined a request for keys",
  "account.sign_out": "Signed an account out everywhere",
  "address_block.lift": "Lifted the block of an IP address",
  "app.register": "Registered an app",
  "app.edit": "Edited an app",
  "app.enable": "Enabled an app",
  "app.disable": "Disabled an app",
  "app.link_workspace": "Linked an app to a workspace",
  "app.unlink_workspace": "Unlinked an app from a workspace",
  "app.rotate_secret": "Rotated an app’s secret",
  "model.enable": "Enabled a model",
  "model.disable": "Disabled a model",
  "model.add": "Added a model",
  "model.edit": "Edited a model",
  "model.delete": "Deleted a model",
  "model.add_route": "Added a route",
  "model.edit_route": "Edited a route",
  "model.remove_route": "Removed a route",
  "model.grant": "Granted a model",
  "model.withdraw": "Withdrew a model’s grant",
  "model.add_price": "Added a price",
  "model.cancel_price": "Canceled a price",
  "credits.grant": "Granted credits",
  "credits.withdraw": "Withdrew credits",
  "provider.limit": "Changed a provider’s limits",
  "plan.add": "Added a plan",
  "plan.edit": "Edited a plan",
  "plan.move_workspace": "Moved a workspace to another plan",
  "books.record_invoice": "Recorded an invoice",
  "books.attach_document": "Attached an invoice’s document",
  "books.close_month": "Closed a month",
  "books.reopen_month": "Reopened a month",
  "costs.import": "Imported costs",
  [automaticImportAction]: "Imported costs automatically",
  "costs.request_import": "Requested an automatic import of costs",
  "costs.request_generations": "Asked OpenRouter for the costs of calls",
  "costs.fetch_usage_hours": "Asked a provider for its hours",
  "costs.mark_gateway_key": "Marked a provider’s key as used only by the gateway",
  "costs.unmark_gateway_key": "Removed the mark of a provider’s key",
  "costs.confirm_missed_days": "Confirmed that missed days had no costs",
  [accountDeletedAction]: "Deleted an account",
};

/** Returns the label of an audit log action, even for an action from a newer version. */
export function actionLabel(action: string): string {
  return actionLabels[action] ?? action.replaceAll(/[._]/g, " ");
}

/**
 * Names the person behind an action. An action without a request came from the operator's command line. An admin's
 * email is null if their account was deleted.
 */
export function actorLabel({
  actorEmail,
  action,
  requestId,
}: {
  actorEmail: string | null;
  action: string;
  requestId: string | null;
}): string {
  if (action === accountDeletedAction) return "The owner";
  if (action === automaticImportAction) return "The system";
  return actorEmail ?? (requestId === null ? "The operator" : "A former admin");
}
