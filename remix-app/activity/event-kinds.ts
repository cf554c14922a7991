/** A kind of account event: its label and, if the owner gets an email about it, the text of that notice. */
interface EventKind {
  label: string;
  /**
   * Set for important changes: the subject and first sentence of the email to the owner. `{product}` is replaced by the
   * product's name. `unconfirmed` replaces the sentence while the owner has not confirmed the addition.
   */
  notice?: { subject: string; what: string; unconfirmed?: string };
  /** Whether an administrator caused the event. If so, the owner doesn't see the administrator's place or device. */
  byAdmin?: boolean;
}

/**
 * The closed list of kinds in `public.security_events`. `private.is_told_by_mail` lists the kinds that have a `notice`.
 */
export const eventKinds = {
  sign_in: { label: "Signed in" },
  sign_out: { label: "Signed out" },
  mfa_approved: { label: "Approved a sign-in on a phone" },
  mfa_rejected: { label: "Rejected a sign-in on a phone" },
  qr_approved: { label: "Approved a browser session on a phone" },
  qr_rejected: { label: "Rejected a browser session on a phone" },
  device_approved: {
    label: "Approved a sign-in on another device",
    notice: {
      subject: "A device was signed in to your {product} account",
      what: "Someone entered a device’s code and approved its sign-in to your {product} account.",
    },
  },
  password_changed: {
    label: "Changed the password",
    notice: {
      subject: "Your {product} password was changed",
      what: "The password of your {product} account was changed.",
    },
  },
  password_added: {
    label: "Set a password",
    notice: {
      subject: "A password was added to your {product} account",
      what: "You can now sign in to your {product} account with a password.",
    },
  },
  password_removed: {
    label: "Removed the password",
    notice: {
      subject: "Your {product} password was removed",
      what: "The password of your {product} account was removed and no longer works.",
    },
  },
  email_change_requested: { label: "Requested an email change" },
  email_changed: {
    label: "Changed the email",
    notice: { subject: "Your {product} email was changed", what: "The email of your {product} account was changed." },
  },
  passkey_added: {
    label: "Added a passkey",
    notice: {
      subject: "A passkey was added to your {product} account",
      what: "You can now sign in to your {product} account with this passkey.",
    },
  },
  passkey_renamed: { label: "Renamed a passkey" },
  passkey_removed: {
    label: "Removed a passkey",
    notice: {
      subject: "A passkey was removed from your {product} account",
      what: "You can no longer sign in to your {product} account with this passkey.",
    },
  },
  authenticator_added: {
    label: "Added an authenticator app",
    notice: {
      subject: "An authenticator app was added to your {product} account",
      what: "Signing in to your {product} account now asks for a code from this app.",
    },
  },
  authenticator_removed: {
    label: "Removed an authenticator app",
    notice: {
      subject: "An authenticator app was removed from your {product} account",
      what: "Codes from this authenticator app no longer work for your {product} account.",
    },
  },
  authenticators_reset: {
    label: "An administrator removed the authenticator apps",
    byAdmin: true,
    notice: {
      subject: "Your {product} authenticator apps were removed",
      what: "An administrator removed the authenticator apps from your {product} account and signed you out everywhere.",
    },
  },
  mfa_required: {
    label: "An administrator required a second factor",
    byAdmin: true,
    notice: {
      subject: "Your {product} account now requires a second factor",
      what: "An administrator now requires a second factor for your {product} account. Your next sign-in will ask for a code from your authenticator app, or ask you to set one up.",
    },
  },
  mfa_made_optional: {
    label: "An administrator made the second factor optional",
    byAdmin: true,
    notice: {
      subject: "A second factor is now optional for your {product} account",
      what: "An administrator made the second factor optional for your {product} account. Your authenticator apps keep working.",
    },
  },
  account_banned: {
    label: "An administrator blocked the account",
    byAdmin: true,
    notice: {
      subject: "Your {product} account was blocked",
      what: "An administrator blocked your {product} account. You can’t sign in to it.",
    },
  },
  deletion_requested: {
    label: "An administrator scheduled the account’s deletion",
    byAdmin: true,
    notice: {
      subject: "Your {product} account will be deleted",
      what: "An administrator scheduled the deletion of your {product} account. You can’t sign in to it. At the time below, the account and its data are deleted for good.",
    },
  },
  deletion_canceled: {
    label: "An administrator canceled the account’s deletion",
    byAdmin: true,
    notice: {
      subject: "Your {product} account will not be deleted",
      what: "An administrator canceled the deletion of your {product} account.",
    },
  },
  account_unbanned: {
    label: "The account was unblocked",
    byAdmin: true,
    notice: {
      subject: "Your {product} account was unblocked",
      what: "You can sign in to your {product} account again.",
    },
  },
  recovery_codes_created: {
    label: "Created new recovery codes",
    notice: {
      subject: "New recovery codes for your {product} account",
      what: "New recovery codes were created for your {product} account. Earlier codes no longer work.",
    },
  },
  recovery_code_used: {
    label: "Used a recovery code",
    notice: {
      subject: "A recovery code was used for your {product} account",
      what: "Someone used a recovery code for your {product} account, which removed its authenticator apps.",
    },
  },
  recovery_code_sign_in: {
    label: "Signed in with a recovery code",
    notice: {
      subject: "A recovery code was used to sign in to your {product} account",
      what: "Someone signed in to your {product} account with a recovery code instead of an authenticator app. Your authenticator apps were kept.",
    },
  },
  identity_linked: {
    label: "Linked an account",
    notice: {
      subject: "An account was linked to your {product} account",
      what: "You can now sign in to your {product} account with this linked account.",
      unconfirmed: "You can’t sign in with this linked account until you confirm it under Review account access.",
    },
  },
  identity_unlinked: {
    label: "Unlinked an account",
    notice: {
      subject: "An account was unlinked from your {product} account",
      what: "You can no longer sign in to your {product} account with this linked account.",
    },
  },
  session_revoked: {
    label: "Signed out a device",
    notice: {
      subject: "A device was signed out of your {product} account",
      what: "One of your devices was signed out from another device.",
    },
  },
  other_sessions_revoked: {
    label: "Signed out all other devices",
    notice: {
      subject: "Your other devices were signed out of {product}",
      what: "All devices except the one that requested it were signed out of your {product} account.",
    },
  },
  all_sessions_revoked: {
    label: "Signed out everywhere",
    notice: {
      subject: "You were signed out of {product} everywhere",
      what: "All devices were signed out of your {product} account.",
    },
  },
  signed_out_by_admin: {
    label: "An administrator signed the account out everywhere",
    byAdmin: true,
    notice: {
      subject: "You were signed out of {product} everywhere",
      what: "An administrator signed your {product} account out of every device and app. You can sign in again.",
    },
  },
  workspace_handed_over: {
    label: "Transferred ownership of a workspace",
    notice: {
      subject: "You transferred ownership of a workspace",
      what: "You transferred ownership of a workspace on {product} to another member.",
    },
  },
  access_confirmed: {
    label: "Reviewed account access",
    notice: {
      subject: "Access to your {product} account was reviewed",
      what: "Someone reviewed and confirmed everything that can open your {product} account or act for it.",
    },
  },
  app_connected: { label: "Connected an app" },
  agent_connected: { label: "Connected a coding agent" },
  app_disconnected: { label: "Disconnected an app" },
  account_recovered: {
    label: "Recovered the account by email",
    notice: {
      subject: "Your {product} account was recovered",
      what: "Someone signed in to your {product} account with a recovery email.",
    },
  },
  account_export: {
    label: "Downloaded the account’s data",
    notice: {
      subject: "Your {product} data was downloaded",
      what: "Someone downloaded a copy of the data in your {product} account.",
    },
  },
} as const satisfies Record<string, EventKind>;

export type EventName = keyof typeof eventKinds;

const signInKinds: readonly EventName[] = [
  ...([
    "sign_in",
    "sign_out",
    "mfa_approved",
    "mfa_rejected",
    "qr_approved",
    "qr_rejected",
    "account_recovered",
  ] as const),
  ...([
    "recovery_code_sign_in",
    "session_revoked",
    "other_sessions_revoked",
    "all_sessions_revoked",
    "signed_out_by_admin",
  ] as const),
];
const connectionKinds: readonly EventName[] = [
  "app_connected",
  "agent_connected",
  "device_approved",
  "app_disconnected",
];

/** The groups by which the activity can be filtered. */
export const eventGroups = {
  sign_ins: { label: "Sign-ins", kinds: signInKinds },
  connections: { label: "Connections", kinds: connectionKinds },
  changes: {
    label: "Security changes",
    kinds: (Object.keys(eventKinds) as EventName[]).filter(
      (kind) => !signInKinds.includes(kind) && !connectionKinds.includes(kind),
    ),
  },
} satisfies Record<string, { label: string; kinds: readonly EventName[] }>;

export type EventGroup = keyof typeof eventGroups;

/** Returns whether a text from a URL names a group. */
export function isEventGroup(text: string | null): text is EventGroup {
  return text !== null && Object.hasOwn(eventGroups, text);
}

/** Returns the label of a kind, even for a kind from a newer version. */
export function eventLabel(kind: string): string {
  return eventKind(kind)?.label ?? kind.replaceAll("_", " ");
}

/** Returns an event kind; undefined if this version doesn't know the kind. */
export function eventKind(kind: string): EventKind | undefined {
  return kind in eventKinds ? eventKinds[kind as EventName] : undefined;
}
