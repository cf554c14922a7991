import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { describedEvent } from "../activity/record-event.ts";
import type { User } from "../session/user.ts";
import { callFunction } from "../supabase/data-api.ts";

const time = z.coerce.date().transform((date) => date.toISOString());

const held = z.object({
  /** What it may do at this moment: granted, and still registered. */
  scopes: z.array(z.string()),
  connectedAt: time,
  /** When the app last came for a new token; known of no other use. */
  renewedAt: time,
  /** Of a session, how far renewing leads; of tokens, when they end unless they are renewed. */
  endsAt: time,
});

const connectedApp = z.object({
  name: z.string(),
  displayName: z.string(),
  origins: z.array(z.string()),
  /** Its sessions, summed up; null where it has none. */
  session: held.nullable(),
  /** Its logins by OpenID Connect, summed up; null where it has none. */
  login: held.nullable(),
  /** What it may sign in with by OpenID Connect without asking again; null if it would ask. */
  consent: z.object({ scopes: z.array(z.string()), grantedAt: time }).nullable(),
  /** Its tokens for the gateway, summed up for each workspace; without a name where the gateway refuses them. */
  tokens: z.array(held.extend({ workspace: z.string().nullable() })),
});

/** What an app holds of somebody in one respect. */
export type HeldByApp = z.output<typeof held>;

/** An app that holds something of the account which is not over. */
export type ConnectedApp = z.output<typeof connectedApp>;

const listed = z.array(connectedApp);
const registeredName = /^[a-z][a-z0-9-]{1,39}$/;
const outcome = z.enum(["disconnected", "over", "not_found"]);

/**
 * The apps that hold sessions or tokens of a user, by their names.
 * @throws Response 503 UNAVAILABLE where the database did not answer
 */
export async function listConnectedApps(context: AppLoadContext, user: User): Promise<ConnectedApp[]> {
  return callFunction(context, { name: "private.connected_apps", args: { subject_id: user.id }, schema: listed });
}

/**
 * Whether an app that is not connected to a user was, as far back as that is known.
 * @throws Response 503 UNAVAILABLE where the database did not answer
 */
export async function wasConnected(
  context: AppLoadContext,
  { user, appName }: { user: User; appName: string },
): Promise<boolean> {
  if (!registeredName.test(appName)) return false;
  const args = { subject_id: user.id, app_name: appName };
  return callFunction(context, { name: "private.app_was_ever_connected", args, schema: z.boolean() });
}

/**
 * Ends all that an app holds of a user, in one transaction with its line in the account's log.
 * @returns `over` where nothing was left to end, `not_found` where it never held anything of theirs, or is no app
 * @throws Response 503 UNAVAILABLE where the database did not answer
 */
export async function disconnectApp(
  context: AppLoadContext,
  { user, appName }: { user: User; appName: string },
): Promise<z.output<typeof outcome>> {
  if (!registeredName.test(appName)) return "not_found";
  const event = describedEvent(context, { userId: user.id, kind: "app_disconnected" });
  const args = { subject_id: user.id, app_name: appName, event };
  return callFunction(context, { name: "private.disconnect_app", args, schema: outcome });
}
