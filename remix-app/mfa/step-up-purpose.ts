/** What each page that requires a step-up changes, as the end of "Confirm that it's you before you …". */
const purposes: readonly [RegExp, string][] = [
  [/^\/workspaces\/[^/]+\/ai\/keys\/new$/, "create an API key"],
  [/^\/workspaces\/[^/]+\/ai\/keys\/[^/]+\/edit$/, "edit an API key"],
  [/^\/workspaces\/[^/]+\/ai\/keys\/[^/]+\/rotate$/, "replace an API key"],
  [/^\/workspaces\/[^/]+\/ai\/keys\/agents$/, "change coding agents"],
  [/^\/workspaces\/[^/]+\/ai\/envelopes$/, "set a task limit"],
  [/^\/workspaces\/[^/]+\/ai\/envelopes\/[^/]+$/, "raise a task limit"],
  [/^\/workspaces\/[^/]+\/settings$/, "change this workspace"],
  [/^\/settings\/profile\/email$/, "change your email"],
  [/^\/settings\/security\/password$|^\/reset-password$/, "change your password"],
  [/^\/settings\/security\/passkeys\/new$/, "add a passkey"],
  [/^\/settings\/security\/passkeys\/[^/]+\/rename$/, "rename a passkey"],
  [/^\/settings\/security\/passkeys\/[^/]+\/delete$/, "delete a passkey"],
  [/^\/settings\/security\/linked-accounts\//, "unlink an account"],
  [/^\/settings\/security\/apps\//, "disconnect an app"],
  [/^\/settings\/security\/access$/, "review account access"],
  [/^\/settings\/security\/export$/, "download your data"],
  [/^\/settings\/security\/delete-account$/, "delete your account"],
  [/^\/settings\/security$/, "change your security settings"],
  [/^\/mfa\/enroll$/, "add an authenticator app"],
  [/^\/mfa\/remove$/, "remove an authenticator app"],
  [/^\/mfa\/recovery-codes$/, "create recovery codes"],
  [/^\/device$/, "connect a device"],
  [/^\/admin(\/|$)/, "make changes in the console"],
];

/** Returns what a step-up is for, such as "create an API key". @param destination a path of ours */
export function stepUpPurpose(destination: string): string {
  const [pathname = ""] = destination.split(/[?#]/, 1);
  return purposes.find(([page]) => page.test(pathname))?.[1] ?? "continue";
}
