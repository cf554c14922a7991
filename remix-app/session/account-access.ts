import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { utcText } from "#shared/utc-time.ts";
import { deviceName } from "../activity/device-name.ts";
import { passkeyName } from "../activity/passkey-name.ts";
import { recordEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { isOwnItem } from "./own-item.ts";
import { getUser, requireFreshUser, type User } from "./user.ts";

const accessWayRow = z.object({
  /** The item's key in the form: its kind, followed by its id if it has one. */
  key: z.string(),
  kind: z.enum([
    ...["password", "identity", "passkey", "authenticator", "recovery_codes", "recovery_mail"],
    ...["session", "phone_approval", "app", "device", "agent"],
  ] as const),
  id: z.string().nullable(),
  name: z.string().nullable(),
  userAgent: z.string().nullable(),
  /** An identity's provider, or a passkey's AAGUID. */
  provider: z.string().nullable(),
  addedAt: utcText,
  lastUsedAt: utcText.nullable(),
  /** The device that added the item, or null if no event recorded the device. */
  device: z.string().nullable(),
  address: z.string().nullable(),
  /** The session that added the item, if known. */
  bySession: z.uuid().nullable(),
  /**
   * Whether the item was added after the owner last confirmed the list, or after the account was created if the owner
   * never confirmed the list.
   */
  isNew: z.boolean(),
  /** Whether the item was added by a direct call to the identity backend without a step-up. */
  unconfirmed: z.boolean(),
  /** Whether the item is the authenticator whose code this session entered. Absent from an older database. */
  proven: z.boolean().default(false),
});

const accessWaySchema = accessWayRow.transform(({ userAgent, ...item }) => ({
  ...item,
  name: nameOf({ userAgent, ...item }),
}));

function nameOf({ kind, name, userAgent, provider, device }: z.output<typeof accessWayRow>): string | null {
  if (kind === "session") return name ?? deviceName(userAgent ?? "");
  return kind === "passkey" ? passkeyName({ name, aaguid: provider, device }) : name;
}

const accountAccess = z.object({
  /** When the list was read. A confirmation covers what was added until then. */
  listedAt: z.string(),
  confirmedAt: utcText.nullable(),
  email: z.string().nullable(),
  ways: z.array(accessWaySchema),
  /**
   * The sessions that the list leaves out. `key` selects all of them, `count` is at most 1,001, and `isNew` is true if
   * any of them is new.
   */
  otherSessions: z.object({ key: z.string(), count: z.number().int(), isNew: z.boolean() }),
  /**
   * The service accounts that the owner is responsible for. Confirming the list doesn't end them. Absent from an older
   * database.
   */
  serviceAccounts: z
    .array(
      z.object({
        id: z.uuid(),
        name: z.string(),
        /** Null for a service account of the platform. */
        workspaceId: z.uuid().nullable(),
        workspace: z.string().nullable(),
        addedAt: z.string(),
        lastUsedAt: z.string().nullable(),
        endsAt: z.string(),
      }),
    )
    .default([]),
});

/** One thing that can open an account or act for it. */
export type AccessWay = z.output<typeof accessWaySchema>;
/** Everything that can open an account or act for it. */
export type AccountAccess = z.output<typeof accountAccess>;

/** The maximum number of sessions in the list. */
const sessionsListed = 50;

/**
 * Lists everything that can open a user's account or act for it.
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function listAccess(
  context: AppLoadContext,
  user: Pick<User, "id" | "sessionId">,
): Promise<AccountAccess> {
  return callFunction(context, {
    name: "private.account_access",
    args: { subject_id: user.id, actor_session_id: user.sessionId, max_sessions: sessionsListed },
    schema: accountAccess,
  });
}

/** The state of the access list, as the security page shows it. */
export const accessState = z.object({
  /** When the owner last confirmed the list. */
  confirmedAt: utcText.nullable(),
  /** The ids of the items that were added without a step-up. */
  unconfirmed: z.array(z.uuid()),
  /** The number of apps, devices and coding agents whose access does not end with the current session. */
  others: z.number().int(),
});

/**
 * Returns the keys of the items that the form preselects for removal: those that are new or unconfirmed. What this
 * session proved, and what the account needs to remain usable, is never among them.
 */
export function listPreselectedKeys(
  { env }: Pick<AppLoadContext, "env">,
  { access: { ways, otherSessions }, user }: { access: AccountAccess; user: Pick<User, "sessionId" | "mfa"> },
): string[] {
  const suspect = ways.filter((way) => (way.isNew || way.unconfirmed) && !isOwnItem(way, user));
  const remaining = ways.filter((way) => !suspect.includes(way));
  const signsIn = ({ kind, provider }: AccessWay) =>
    kind === "passkey" ||
    (kind === "identity" && (env.OAUTH_PROVIDERS as readonly (string | null)[]).includes(provider));
  const needed = (way: AccessWay) =>
    // Keeps the password if no other sign-in method is kept, because the owner can change it instead.
    (way.kind === "password" && !remaining.some(signsIn)) ||
    (way.kind === "authenticator" &&
      user.mfa.policy !== "optional" &&
      !remaining.some(({ kind }) => kind === "authenticator"));
  const selected = suspect.filter((way) => !needed(way)).map(({ key }) => key);
  return otherSessions.isNew ? [...selected, otherSessions.key] : selected;
}

const confirmation = z.discriminatedUnion("outcome", [
  z.object({
    outcome: z.literal("confirmed"),
    removed: z.array(accessWaySchema),
    endedSessions: z.array(z.object({ id: z.uuid(), device: z.string().nullable(), userAgent: z.string().nullable() })),
  }),
  z.object({ outcome: z.enum(["last_method", "last_of_required", "insufficient_aal", "not_found"]) }),
]);

/** The result of a confirmation. A refusal changed nothing. */
export type AccessConfirmationOutcome =
  | { status: "confirmed"; removed: number }
  | { status: "last_method" | "last_of_required" };

/** The owner's decision about the list that they saw. */
export interface AccessDecision {
  listedAt: string;
  /** Keys of the listed items that were added without a step-up. */
  listed: string[];
  /** Keys of the items to remove. */
  remove: string[];
  /** The form key of each session that the list showed. */
  sessions: string[];
}

/**
 * Returns whether a session may review the account's authenticators without using one first. Requires that all of the
 * authenticators still await the owner's confirmation, and that the session began with a recent password reset or
 * recovery.
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function mayReviewAuthenticators(
  context: AppLoadContext,
  { id, sessionId }: Pick<User, "id" | "sessionId">,
): Promise<boolean> {
  const args = { subject_id: id, actor_session_id: sessionId };
  return callFunction(context, { name: "private.may_review_authenticators", args, schema: z.boolean() });
}

/**
 * Returns the user if they may change the account's access list. A user who has not passed MFA may do so only if {@link
 * mayReviewAuthenticators} allows it.
 * @throws Response from {@link requireFreshUser} for everyone else
 */
export async function requireAccessOwner(context: AppLoadContext, request: Request): Promise<User> {
  const user = await getUser(context);
  if (user && !user.mfa.satisfied && (await mayReviewAuthenticators(context, user))) return user;
  return requireFreshUser(context, request);
}

/**
 * Removes what the owner selected, ends the sessions that depend on it, and confirms the rest, all in one transaction.
 * @throws Response 401 REAUTH_REQUIRED if the session has ended; 403 MFA_REQUIRED if it has not yet been confirmed with
 * the account's authenticator; 503 UNAVAILABLE
 */
export async function confirmAccess(
  context: AppLoadContext,
  { user, decision }: { user: User; decision: AccessDecision },
): Promise<AccessConfirmationOutcome> {
  const { env, requestId } = context;
  const result = await callFunction(context, {
    name: "private.confirm_access",
    args: {
      subject_id: user.id,
      actor_session_id: user.sessionId,
      removals: decision,
      usable_providers: env.OAUTH_PROVIDERS,
    },
    schema: confirmation,
  });
  if (result.outcome === "not_found") throw problem("REAUTH_REQUIRED", { requestId });
  if (result.outcome === "insufficient_aal") throw problem("MFA_REQUIRED", { requestId });
  if (result.outcome !== "confirmed") return { status: result.outcome };
  await addEventDetails(context, { userId: user.id, ...result });
  return { status: "confirmed", removed: result.removed.length };
}

const removalEvents = {
  password: "password_removed",
  identity: "identity_unlinked",
  passkey: "passkey_removed",
  authenticator: "authenticator_removed",
  app: "app_disconnected",
  device: "app_disconnected",
  agent: "app_disconnected",
} as const;

/** Adds this request's device and IP address to the events that the database recorded with the change. */
async function addEventDetails(
  context: AppLoadContext,
  {
    userId,
    removed,
    endedSessions,
  }: { userId: string } & Pick<
    Extract<z.output<typeof confirmation>, { outcome: "confirmed" }>,
    "removed" | "endedSessions"
  >,
): Promise<void> {
  for (const { kind } of removed) {
    if (kind in removalEvents) {
      await recordEvent(context, { userId, kind: removalEvents[kind as keyof typeof removalEvents] });
    }
  }
  await recordEvent(context, { userId, kind: "access_confirmed" });
  if (endedSessions.length === 0) return;
  const devices = new Set(endedSessions.map(({ device, userAgent }) => device ?? deviceName(userAgent ?? "")));
  await recordEvent(context, { userId, kind: "session_revoked", details: { device: [...devices].join(", ") } });
}
