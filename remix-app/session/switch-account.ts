import { setTimeout as sleep } from "node:timers/promises";
import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { expiryOf } from "#shared/claims.ts";
import { logWarning } from "#shared/log.ts";
import { problem } from "../http/problem.ts";
import { redirectTarget, type TargetContext } from "../http/redirect-target.ts";
import { type Device, deriveSuccessor, type StoredSession, secretHash } from "./cookies.ts";
import { refreshMarginSeconds } from "./refresh.ts";
import { computeSessionTag, type VaultEntry, VaultUnavailable, vaultEntry } from "./vault.ts";

/**
 * How long a switch waits for another switch in the same browser, and how often it polls. The wait is longer than the
 * lease of a crashed switch, which lasts 10 s.
 */
const switchWaitMs = 11_000;
const leasePollMs = 60;
/** The maximum number of attempts of one switch. A switch tries again if another request has rotated the session. */
const maxSwitchAttempts = 4;

/**
 * The result of a switch. `ended` means that the stored session has definitely ended and its entry is removed.
 * `unavailable` means that the outcome is unknown and the entry stays.
 */
export type SwitchOutcome =
  | { status: "switched"; lastRoute: string | null }
  | { status: "ended"; email: string | null }
  | { status: "no_account" }
  | { status: "no_device" }
  | { status: "unavailable" };

export interface SwitchOptions {
  accountId: string;
  /** The page to restore when the person switches back to the outgoing account. Null if there is none. */
  leaving: string | null;
}

const beginResult = z.discriminatedUnion("status", [
  z.object({ status: z.literal("unknown") }),
  z.object({ status: z.literal("no_account") }),
  z.object({ status: z.literal("busy") }),
  z.object({ status: z.literal("active"), lastRoute: z.string().nullable() }),
  z.object({
    status: z.literal("begun"),
    usable: z.boolean(),
    lastRoute: z.string().nullable(),
    target: vaultEntry,
  }),
]);

const activateResult = z.discriminatedUnion("status", [
  z.object({ status: z.literal("activated"), rotated: z.boolean() }),
  z.object({ status: z.literal("changed"), current: vaultEntry.nullable() }),
  z.object({ status: z.literal("lost") }),
]);

interface Target {
  device: Device;
  lease: string;
  start: Extract<z.infer<typeof beginResult>, { status: "begun" }>;
}

/**
 * Switches this browser to another of its accounts. Acquires the device's lease, saves the outgoing account's live
 * session, refreshes the target's session, then stores the rotated session and activates the account in one transaction
 * (docs/accounts.md, A switch). Each step is atomic, so a crash between two steps loses no account, and a session that
 * another tab rotated meanwhile is adopted.
 */
export async function switchAccount(
  context: AppLoadContext,
  { accountId, leaving }: SwitchOptions,
): Promise<SwitchOutcome> {
  const { device } = context.session;
  if (!device) return { status: explainMissingDevice(context) };
  const lease = crypto.randomUUID();
  try {
    const start = await acquireSwitchLease(context, { device: device.device, accountId, lease });
    if (start === "unavailable") return { status: "unavailable" };
    if (start.status === "unknown") return { status: "no_device" };
    if (start.status === "no_account") return { status: "no_account" };
    if (start.status === "active") return { status: "switched", lastRoute: start.lastRoute };
    let outcome: SwitchOutcome | undefined;
    try {
      await saveOutgoingSession(context, leaving);
      outcome = await activate(context, { device: device.device, lease, start });
      return outcome;
    } finally {
      // A completed switch releases the lease in its own transaction.
      if (outcome?.status !== "switched") await releaseLease(context, { device: device.device, lease });
    }
  } catch (error) {
    if (!(error instanceof VaultUnavailable)) throw error;
    logWarning(`a switch was not finished: ${error.message}`, { requestId: context.requestId });
    return { status: "unavailable" };
  }
}

/** Acquires the device's lease, waiting for another switch to release it. */
async function acquireSwitchLease(
  { session: { vault } }: AppLoadContext,
  { device, accountId, lease }: { device: Device; accountId: string; lease: string },
) {
  const args = { device_id: device.id, secret: device.secret, target_id: accountId, lease };
  const until = Date.now() + switchWaitMs;
  for (;;) {
    const result = await vault.call("begin_account_switch", { args, schema: beginResult });
    if (result.status !== "busy") return result;
    if (Date.now() > until) return "unavailable" as const;
    await sleep(leasePollMs * (1 + Math.random()));
  }
}

/**
 * Releases the lease of an incomplete switch. On failure, the lease expires by itself and the switch's result does not
 * change.
 */
async function releaseLease(
  { session: { vault }, requestId }: AppLoadContext,
  { device, lease }: { device: Device; lease: string },
): Promise<void> {
  try {
    await vault.call("end_account_switch", { args: { device_id: device.id, lease }, schema: z.unknown() });
  } catch (error) {
    if (!(error instanceof VaultUnavailable)) throw error;
    logWarning(`a switch's lease was not released: ${error.message}`, { requestId });
  }
}

/** Saves the outgoing account's current session in the vault, unless another tab has already stored a newer session. */
async function saveOutgoingSession({ session }: AppLoadContext, leaving: string | null): Promise<void> {
  const { auth, device, vault, stored } = session;
  if (auth.status !== "authenticated" || auth.via !== "cookie" || !device || !stored) return;
  const { sub: userId, session_id: sessionId } = auth.claims;
  const entry = { userId, sessionId, tag: computeSessionTag(stored, vault.keys) };
  await vault.keep({ device: device.device, entry, session: stored, lastRoute: leaving });
}

async function activate(context: AppLoadContext, { device, lease, start }: Target): Promise<SwitchOutcome> {
  let { target: entry, lastRoute, usable } = start;
  for (let tries = 0; tries < maxSwitchAttempts; tries += 1) {
    const session = await openTargetSession(context, { device, entry, usable, rotated: tries > 0 });
    if (session === "unavailable") return { status: "unavailable" };
    if (session === "over") {
      if (await context.session.vault.discard(device, { entry, listed: false })) return endedOutcome(context, entry);
      // Another request rotated the session first, so this continues with that session.
      const again = await acquireSwitchLease(context, { device, accountId: entry.userId, lease });
      if (again === "unavailable" || again.status !== "begun") return { status: "unavailable" };
      ({ target: entry, lastRoute, usable } = again);
      continue;
    }
    const answer = await storeAndActivate(context, { device, lease, entry, session });
    if (answer.status === "activated") return { status: "switched", lastRoute };
    if (answer.status === "lost" || !answer.current) return { status: "unavailable" };
    entry = answer.current;
  }
  return { status: "unavailable" };
}

/**
 * Returns the target's session, refreshed at the identity backend. A session that another tab has just refreshed is
 * returned as it is.
 */
async function openTargetSession(
  { session: { vault, refresh } }: AppLoadContext,
  { device, entry, usable, rotated }: { device: Device; entry: VaultEntry; usable: boolean; rotated: boolean },
): Promise<StoredSession | "over" | "unavailable"> {
  const stored = usable ? await vault.unseal(device, entry) : null;
  if (!stored) return "over";
  if (rotated && (expiryOf(stored.access_token) ?? 0) - Date.now() / 1000 > refreshMarginSeconds) return stored;
  const result = await refresh(stored.refresh_token);
  if (result.status === "refused") return "over";
  return result.status === "unavailable" ? "unavailable" : result.session;
}

/** Stores the target's session and activates it, then gives it to the browser with the device's next secret. */
async function storeAndActivate(
  { session: { vault, store, storeDevice, restoreApproval } }: AppLoadContext,
  { device, lease, entry, session }: { device: Device; lease: string; entry: VaultEntry; session: StoredSession },
) {
  const { userId, sessionId, tag: expectedTag } = entry;
  const next = deriveSuccessor(device, vault.keys);
  const answer = await vault.call("activate_account", {
    args: {
      switch: {
        deviceId: device.id,
        leaseId: lease,
        secret: device.secret,
        nextHash: secretHash(next),
        userId,
        sessionId,
        expectedTag,
        ...(await vault.seal(device, { userId, session })),
      },
    },
    schema: activateResult,
  });
  if (answer.status === "activated") {
    store(session);
    restoreApproval(entry);
    if (answer.rotated) storeDevice(next);
  }
  return answer;
}

function endedOutcome({ session }: AppLoadContext, { userId }: VaultEntry): SwitchOutcome {
  const email = session.accounts.find(({ id }) => id === userId)?.email ?? null;
  return { status: "ended", email };
}

/**
 * Returns the path at which to open an account: the first valid one of the caller's target, the account's last page and
 * the home page.
 */
export function chooseEntryPath({
  targetRoute,
  lastRoute,
  context,
}: {
  targetRoute?: unknown;
  lastRoute: string | null;
  context: TargetContext;
}): string {
  const fallback = redirectTarget(lastRoute, { context, fallback: "/" });
  return redirectTarget(targetRoute, { context, fallback });
}

/**
 * Returns why a request has no device: it has no session, it carries a bearer token, or its cookie's session could not
 * be checked.
 */
export function explainMissingDevice({ session: { auth } }: AppLoadContext): "no_device" | "unavailable" {
  const none = auth.status === "anonymous" || (auth.status === "authenticated" && auth.via === "bearer");
  return none ? "no_device" : "unavailable";
}

const requiresReauth = { requiresReauth: true };

/** Returns the API's response if accounts could not be listed, switched or signed out. */
export function accountProblem(
  status: Exclude<SwitchOutcome["status"], "switched">,
  { requestId }: { requestId: string },
): Response {
  switch (status) {
    case "ended":
      return problem("REAUTH_REQUIRED", {
        requestId,
        detail: "This account’s session has ended. Sign in to it again.",
        members: requiresReauth,
      });
    case "no_account":
      return problem("NOT_FOUND", {
        requestId,
        detail: "You’re not signed in to this account in this browser.",
        members: requiresReauth,
      });
    case "no_device":
      return problem("UNAUTHENTICATED", { requestId, detail: "You’re not signed in to any account in this browser." });
    case "unavailable":
      return problem("AUTH_UNAVAILABLE", {
        requestId,
        detail: "We can’t do this right now. No account was signed out. Try again in a moment.",
      });
  }
}

/** Pages that lead to a sign-in. Ignores case, as the router does. */
const signInPagePattern = /^\/(login|add-account|auth)(\/|$)/i;

/** Returns the path that a switch to the account reopens, or null if the path is not a page or leads to a sign-in. */
export function parseLastRoute(input: unknown, context: TargetContext): string | null {
  const path = redirectTarget(input, { context, fallback: "" });
  return path === "" || signInPagePattern.test(pathnameOf(path)) ? null : path;
}

function pathnameOf(path: string): string {
  const [pathname = ""] = path.split(/[?#]/, 1);
  try {
    return decodeURIComponent(pathname);
  } catch {
    return pathname;
  }
}
