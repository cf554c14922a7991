/** What can happen to an account, in words for its owner, and what its notice says where it takes one. */
interface EventKind {
  /** As in the log. */
  label: string;
  /** A change that matters: the owner gets a mail with this subject, and this first sentence. */
  notice?: { subject: string; what: string };
}

/** The closed list of kinds in `public.security_events`. */
const eventKinds = {
  sign_in: { label: "Signed in" },
  sign_out: { label: "Signed out" },
  mfa_approved: { label: "Approved a sign-in on a phone" },
  mfa_rejected: { label: "Rejected a sign-in on a phone" },
  qr_approved: { label: "Handed a session over from a phone" },
  qr_rejected: { label: "Rejected a session's handover on a phone" },
  password_changed: {
    label: "Changed the password",
    notice: { subject: "Your password was changed", what: "The password of your account was changed." },
  },
  password_added: {
    label: "Set a password",
    notice: { subject: "A password was set", what: "A password was set for your account. It can sign in." },
  },
  email_change_requested: { label: "Asked to change the email" },
  email_changed: {
    label: "Changed the email",
    notice: { subject: "Your email was changed", what: "The email of your account was changed." },
  },
  passkey_added: {
    label: "Added a passkey",
    notice: { subject: "A passkey was added", what: "A passkey was added to your account. It can sign in." },
  },
  passkey_renamed: { label: "Renamed a passkey" },
  passkey_removed: {
    label: "Removed a passkey",
    notice: { subject: "A passkey was removed", what: "A passkey was removed from your account." },
  },
  authenticator_added: {
    label: "Added an authenticator app",
    notice: { subject: "An authenticator app was added", what: "An authenticator app was added to your account." },
  },
  authenticator_removed: {
    label: "Removed an authenticator app",
    notice: {
      subject: "An authenticator app was removed",
      what: "An authenticator app was removed from your account. Its codes no longer work.",
    },
  },
  authenticators_reset: {
    label: "An administrator removed the authenticator apps",
    notice: {
      subject: "Your authenticator apps were removed",
      what: "An administrator of this service removed the authenticator apps of your account and signed you out everywhere.",
    },
  },
  recovery_codes_created: {
    label: "Made new recovery codes",
    notice: {
      subject: "New recovery codes were made",
      what: "New recovery codes were made for your account. The ones from before no longer work.",
    },
  },
  recovery_code_used: {
    label: "Used a recovery code",
    notice: {
      subject: "A recovery code was used",
      what: "A recovery code of your account was used. The account's authenticator apps were removed with it.",
    },
  },
  identity_linked: {
    label: "Linked an account",
    notice: { subject: "A sign-in was linked", what: "Another way to sign in was linked to your account." },
  },
  identity_unlinked: {
    label: "Unlinked an account",
    notice: { subject: "A sign-in was unlinked", what: "A way to sign in was unlinked from your account." },
  },
  session_revoked: {
    label: "Signed a device out",
    notice: { subject: "A device was signed out", what: "A device was signed out of your account from another one." },
  },
  other_sessions_revoked: {
    label: "Signed all other devices out",
    notice: {
      subject: "Your other devices were signed out",
      what: "All devices but the one that asked for it were signed out of your account.",
    },
  },
  workspace_handed_over: {
    label: "Handed a workspace over",
    notice: {
      subject: "You handed a workspace over",
      what: "A workspace that you owned has another owner now, at your word.",
    },
  },
  app_disconnected: { label: "Disconnected an app" },
  account_recovered: {
    label: "Recovered the account by mail",
    notice: { subject: "Your account was recovered", what: "Your account was signed in to by a recovery mail." },
  },
  account_export: {
    label: "Downloaded the account's data",
    notice: { subject: "Your data was downloaded", what: "A copy of everything we hold about you was downloaded." },
  },
} as const satisfies Record<string, EventKind>;

export type EventName = keyof typeof eventKinds;

/** What a kind is called, also where it is of a version of tomorrow. */
export function eventLabel(kind: string): string {
  return kind in eventKinds ? eventKinds[kind as EventName].label : kind.replaceAll("_", " ");
}

/** The notice that a kind takes, or null. */
export function noticeOf(kind: EventName): EventKind["notice"] | null {
  const { notice }: EventKind = eventKinds[kind];
  return notice ?? null;
}
