/** What can happen to an account, in words for its owner, and what its notice says where it takes one. */
interface EventKind {
  /** As in the log. */
  label: string;
  /** A change that matters: the owner gets a mail with this subject, and this first sentence. */
  notice?: { subject: string; what: string };
  /** An administrator did it: where and by which device is not the owner's to know. */
  byAdmin?: boolean;
}

/** The closed list of kinds in `public.security_events`. `private.is_told_by_mail` lists those with a notice. */
export const eventKinds = {
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
    notice: { subject: "A password was set", what: "A password was set for your account. It can be used to sign in." },
  },
  password_removed: {
    label: "Removed the password",
    notice: {
      subject: "Your password was removed",
      what: "The password of your account was removed. It can no longer be used to sign in.",
    },
  },
  email_change_requested: { label: "Asked to change the email" },
  email_changed: {
    label: "Changed the email",
    notice: { subject: "Your email was changed", what: "The email of your account was changed." },
  },
  passkey_added: {
    label: "Added a passkey",
    notice: { subject: "A passkey was added", what: "A passkey was added to your account. It can be used to sign in." },
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
    byAdmin: true,
    notice: {
      subject: "Your authenticator apps were removed",
      what: "An administrator of this service removed the authenticator apps of your account and signed you out everywhere.",
    },
  },
  mfa_required: {
    label: "An administrator required a second factor",
    byAdmin: true,
    notice: {
      subject: "Your account now needs a second factor",
      what: "An administrator of this service now requires a second factor for your account. Your next sign-in will ask for a code from your authenticator app, or ask you to set one up.",
    },
  },
  mfa_made_optional: {
    label: "An administrator made the second factor optional",
    byAdmin: true,
    notice: {
      subject: "Your second factor is optional now",
      what: "An administrator of this service made the second factor of your account optional. Your authenticator apps stay as they are.",
    },
  },
  account_banned: {
    label: "An administrator blocked the account",
    byAdmin: true,
    notice: { subject: "Your account was blocked", what: "An administrator of this service blocked your account." },
  },
  account_unbanned: {
    label: "The account was unblocked",
    byAdmin: true,
    notice: { subject: "Your account was unblocked", what: "Your account was unblocked. You can sign in again." },
  },
  recovery_codes_created: {
    label: "Made new recovery codes",
    notice: {
      subject: "New recovery codes were made",
      what: "New recovery codes were made for your account. Earlier codes no longer work.",
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
    notice: { subject: "A device was signed out", what: "A device was signed out of your account by another device." },
  },
  other_sessions_revoked: {
    label: "Signed all other devices out",
    notice: {
      subject: "Your other devices were signed out",
      what: "All devices except the one that requested it were signed out of your account.",
    },
  },
  all_sessions_revoked: {
    label: "Signed out everywhere",
    notice: { subject: "You were signed out everywhere", what: "All devices were signed out of your account." },
  },
  signed_out_by_admin: {
    label: "An administrator signed the account out everywhere",
    byAdmin: true,
    notice: {
      subject: "You were signed out everywhere",
      what: "An administrator of this service signed your account out of every device and app. You can sign in again.",
    },
  },
  workspace_handed_over: {
    label: "Handed a workspace over",
    notice: {
      subject: "You handed a workspace over",
      what: "You transferred a workspace that you owned to another owner.",
    },
  },
  access_confirmed: {
    label: "Confirmed what can open the account",
    notice: {
      subject: "What can open your account was confirmed",
      what: "Someone reviewed the list of what can open your account and confirmed it.",
    },
  },
  app_disconnected: { label: "Disconnected an app" },
  account_recovered: {
    label: "Recovered the account by mail",
    notice: { subject: "Your account was recovered", what: "Someone signed in to your account with a recovery email." },
  },
  account_export: {
    label: "Downloaded the account's data",
    notice: { subject: "Your data was downloaded", what: "A copy of everything we hold about you was downloaded." },
  },
} as const satisfies Record<string, EventKind>;

export type EventName = keyof typeof eventKinds;

/** What a kind is called, also where it is of a version of tomorrow. */
export function eventLabel(kind: string): string {
  return eventKind(kind)?.label ?? kind.replaceAll("_", " ");
}

/** What is known of a kind; undefined for a kind of another version. */
export function eventKind(kind: string): EventKind | undefined {
  return kind in eventKinds ? eventKinds[kind as EventName] : undefined;
}
