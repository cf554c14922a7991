/**
 * The only action in this log that an account's owner takes. Its actor has no email, because deleting the account also
 * deletes the owner's identity.
 */
const accountDeletedAction = "account.deleted";

/** The only action in this log that the system takes by itself. */
const automaticImportAction = "costs.import_automatically";

/** All actions of the log with their labels, by the area that the filter shows them under. */
export const auditActions: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Accounts: {
    "account.sign_out": "Signed an account out everywhere",
    "account.ban": "Banned an account",
    "account.unban": "Lifted the ban of an account",
    "account.request_deletion": "Scheduled an account’s deletion",
    "account.cancel_deletion": "Canceled an account’s deletion",
    "account.delete": "Deleted an account as scheduled",
    "account_invitation.add": "Invited a person",
    "account_invitation.revoke": "Revoked an invitation",
    [accountDeletedAction]: "Deleted an account",
    "required_mfa.require": "Required MFA",
    "required_mfa.make_optional": "Made MFA optional",
    "required_mfa.begin_reset": "Began to reset the authenticators",
    "required_mfa.finish_reset": "Finished resetting the authenticators",
    "recovery.create": "Created a recovery override",
    "recovery.send": "Sent a recovery email",
    "recovery.revoke": "Revoked a recovery override",
    "address_block.lift": "Lifted the block of an IP address",
  },
  "Workspaces and credits": {
    "ai_keys.approve": "Approved keys",
    "ai_keys.withdraw": "Withdrew the approval of keys",
    "ai_keys.decline": "Declined a request for keys",
    "plan.add": "Added a plan",
    "plan.edit": "Edited a plan",
    "plan.move_workspace": "Moved a workspace to another plan",
    "workspace.policy": "Changed a workspace’s AI policy",
    "workspace.budget": "Changed a workspace’s budget",
    "credits.grant": "Granted credits",
    "credits.withdraw": "Withdrew credits",
  },
  "Models, prices and providers": {
    "model.add": "Added a model",
    "model.edit": "Edited a model",
    "model.enable": "Enabled a model",
    "model.disable": "Disabled a model",
    "model.delete": "Deleted a model",
    "model.add_route": "Added a route",
    "model.edit_route": "Edited a route",
    "model.remove_route": "Removed a route",
    "model.add_price": "Added a price",
    "model.cancel_price": "Canceled a price",
    "model.grant": "Granted a model",
    "model.withdraw": "Withdrew a model’s grant",
    "provider.limit": "Changed a provider’s limits",
    "provider.test": "Sent a test call to a provider",
  },
  Books: {
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
  },
  Apps: {
    "app.register": "Registered an app",
    "app.edit": "Edited an app",
    "app.enable": "Enabled an app",
    "app.disable": "Disabled an app",
    "app.link_workspace": "Linked an app to a workspace",
    "app.unlink_workspace": "Unlinked an app from a workspace",
    "app.rotate_secret": "Rotated an app’s secret",
  },
  "Service accounts": {
    "service_account.add": "Added a service account",
    "service_account.edit": "Edited a service account",
    "service_account.enable": "Enabled a service account",
    "service_account.disable": "Disabled a service account",
    "service_account.rotate_secret": "Rotated a service account’s secret",
    "service_account.add_key": "Added a public key to a service account",
    "service_account.remove_credential": "Removed a credential of a service account",
    "service_account.revoke": "Revoked a service account",
  },
  Settings: {
    "settings.sign_up": "Opened or closed sign-up",
  },
  "Roles in the console": {
    "admin.grant": "Made an account an admin",
    "admin.revoke": "Removed an admin",
    "finance.grant": "Gave an account the platform’s books",
    "finance.revoke": "Withdrew the platform’s books from an account",
  },
};

const labels: Readonly<Record<string, string>> = Object.assign({}, ...Object.values(auditActions));

/** Returns whether this version knows an action. */
export function isAuditAction(action: string): boolean {
  return Object.hasOwn(labels, action);
}

/** Returns the label of an action, even of one from a newer version. */
export function actionLabel(action: string): string {
  return labels[action] ?? action.replaceAll(/[._]/g, " ");
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
