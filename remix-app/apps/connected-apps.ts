import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { describeEvent } from "../activity/record-event.ts";
import type { User } from "../session/user.ts";
import { callFunction } from "../supabase/data-api.ts";

const isoTimeSchema = z.coerce.date().transform((date) => date.toISOString());

const appAccessSchema = z.object({
  /** The scopes that are granted and still registered. */
  scopes: z.array(z.string()),
  connectedAt: isoTimeSchema,
  /** When the app last renewed its token. Other use is not recorded. */
  renewedAt: isoTimeSchema,
  /** When the session or login ends. For gateway tokens, when the app's access expires if the app does not renew it. */
  endsAt: isoTimeSchema,
});

/** The names of the apps that an OpenID client may call. */
const resourceNamesSchema = z.array(z.string());

const connectedApp = z.object({
  name: z.string(),
  displayName: z.string(),
  origins: z.array(z.string()),
  /** The app's sessions combined, or null if it has none. */
  session: appAccessSchema.nullable(),
  /** The app's OpenID Connect logins, combined into one entry, or null if the app has none. */
  login: appAccessSchema.extend({ resources: resourceNamesSchema }).nullable(),
  /** The scopes that the app gets through OpenID Connect without asking the person again, or null if it has to ask. */
  consent: z
    .object({ scopes: z.array(z.string()), resources: resourceNamesSchema, grantedAt: isoTimeSchema })
    .nullable(),
  /**
   * The app's gateway tokens, combined per workspace. `workspace` is null if the app or the person lost access to it.
   */
  tokens: z.array(appAccessSchema.extend({ workspace: z.string().nullable() })),
});

/** One kind of access that an app has to an account. */
export type AppAccess = z.output<typeof appAccessSchema>;

/** An app with active access to the account. */
export type ConnectedApp = z.output<typeof connectedApp>;

const connectedApps = z.array(connectedApp);
const registeredName = /^[a-z][a-z0-9-]{1,39}$/;
const disconnectOutcomeSchema = z.enum(["disconnected", "over", "not_found"]);

/**
 * Lists the apps with access to a user's account, ordered by name.
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function listConnectedApps(context: AppLoadContext, user: User): Promise<ConnectedApp[]> {
  return callFunction(context, {
    name: "private.connected_apps",
    args: { subject_id: user.id },
    schema: connectedApps,
  });
}

/**
 * Returns whether the user's log shows that a disconnected app was connected before.
 * @throws Response 503 UNAVAILABLE if the database did not answer
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
 * Ends all access that an app has to a user's account, and logs this for the account in the same transaction.
 * @returns `over` if no access was left to end, `not_found` if the app never had access or does not exist
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function disconnectApp(
  context: AppLoadContext,
  { user, appName }: { user: User; appName: string },
): Promise<z.output<typeof disconnectOutcomeSchema>> {
  if (!registeredName.test(appName)) return "not_found";
  const event = describeEvent(context, { userId: user.id, kind: "app_disconnected" });
  const args = { subject_id: user.id, app_name: appName, event };
  return callFunction(context, { name: "private.disconnect_app", args, schema: disconnectOutcomeSchema });
}
