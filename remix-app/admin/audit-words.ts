/** What admins do, in words of the log. */
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
};

/** What an action of the audit log is called, also where it is of a version of tomorrow. */
export function actionLabel(action: string): string {
  return words[action] ?? action.replaceAll(/[._]/g, " ");
}
