/** The one act of the log that is no admin's: nobody else ends an account, and with it goes who they were. */
const deletedByOwner = "account.deleted";

/** What is done, in words of the log. */
const words: Record<string, string> = {
  "admin.grant": "Made an infrastructure admin",
  "admin.revoke": "Took the console away",
  "required_mfa.require": "Required MFA",
  "required_mfa.make_optional": "Made MFA optional",
  "required_mfa.begin_reset": "Began to reset the authenticators",
  "required_mfa.finish_reset": "Finished resetting the authenticators",
  "recovery.create": "Made a recovery override",
  "recovery.send": "Sent a recovery mail",
  "recovery.revoke": "Revoked a recovery override",
  "ai_keys.approve": "Approved keys",
  "ai_keys.withdraw": "Withdrew the approval of keys",
  "app.register": "Registered an app",
  "app.edit": "Edited an app",
  "app.enable": "Enabled an app",
  "app.disable": "Disabled an app",
  "app.link_workspace": "Linked an app to a workspace",
  "app.unlink_workspace": "Unlinked an app from a workspace",
  "app.rotate_secret": "Rotated an app's secret",
  "model.enable": "Enabled a model",
  "model.disable": "Disabled a model",
  "model.add_price": "Added a price",
  [deletedByOwner]: "Deleted an account",
};

/** What an action of the audit log is called, also where it is of a version of tomorrow. */
export function actionLabel(action: string): string {
  return words[action] ?? action.replaceAll(/[._]/g, " ");
}

/** Who did something. What came by no request came by the operator's command line; an admin may be gone since. */
export function actorLabel({
  actorEmail,
  action,
  requestId,
}: {
  actorEmail: string | null;
  action: string;
  requestId: string | null;
}): string {
  if (action === deletedByOwner) return "The owner";
  return actorEmail ?? (requestId === null ? "The operator" : "A former admin");
}
