import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { utcText } from "#shared/utc-time.ts";
import { recordEvent } from "../activity/record-event.ts";
import { providerLabel } from "../config/oauth-providers.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { User } from "./user.ts";

const identity = z.object({
  id: z.uuid(),
  provider: z.string(),
  email: z.string().nullable(),
  createdAt: utcText,
  lastSignInAt: utcText.nullable(),
});
const signInIdentity = identity.extend({
  /**
   * Whether the identity was added by a direct call to the identity backend. Our pages do not accept such an identity
   * until the owner confirms it.
   */
  unconfirmed: z.boolean(),
});

/** The provider accounts that an account is linked to. */
export const identityList = z.object({ identities: z.array(identity), canUnlink: z.boolean() });
export type IdentityList = z.output<typeof identityList>;

export const signInMethods = z.object({
  password: z.boolean(),
  passkeys: z.number().int(),
  identities: z.array(signInIdentity),
});

/** An identity that can sign in to an account: a linked provider account, or the account's email (provider `email`). */
export interface LinkedIdentity extends z.infer<typeof signInIdentity> {
  /** Whether another way to sign in would remain without this identity. */
  unlinkable: boolean;
}

export type SignInMethods = z.infer<typeof signInMethods>;

const builtInProviders = ["email", "phone"];

/**
 * Returns the ways to sign in to an account: a password, passkeys, and identities, whether or not their provider is
 * enabled.
 * @throws Response 503 UNAVAILABLE
 */
export async function readSignInMethods(context: AppLoadContext, userId: string): Promise<SignInMethods> {
  const { data, error } = await createServiceClient(context.env)
    .schema("private")
    .rpc("list_sign_in_methods", { subject_id: userId });
  const methods = signInMethods.safeParse(data);
  if (error || !methods.success) throw unavailable(context, error?.code ?? "answer");
  return methods.data;
}

/**
 * Returns an account's identities, and which of them can be unlinked.
 * @throws Response 503 UNAVAILABLE
 */
export async function listIdentities(context: AppLoadContext, user: User): Promise<LinkedIdentity[]> {
  return markUnlinkable(context, await readSignInMethods(context, user.id));
}

/**
 * Marks which identities can be unlinked: a password, a passkey or a confirmed identity of an enabled provider must
 * remain.
 */
export function markUnlinkable(
  { env }: Pick<AppLoadContext, "env">,
  { password, passkeys, identities }: SignInMethods,
): LinkedIdentity[] {
  const isUsable = ({ provider, unconfirmed }: z.infer<typeof signInIdentity>) =>
    !unconfirmed && (env.OAUTH_PROVIDERS as readonly string[]).includes(provider);
  const usable = Number(password) + passkeys + identities.filter(isUsable).length;
  return identities.map((linked) => ({
    ...linked,
    unlinkable: !builtInProviders.includes(linked.provider) && usable > (isUsable(linked) ? 1 : 0),
  }));
}

const unlinkResult = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("unlinked"), provider: z.string(), email: z.string().nullable() }),
  z.object({ outcome: z.enum(["last_method", "not_unlinkable", "not_found"]) }),
]);

/**
 * Unlinks an identity from the user's account and notifies the user.
 * @throws Response 404 NOT_FOUND; 409 CONFLICT if no way to sign in would remain; 503 UNAVAILABLE
 */
export async function unlinkIdentity(context: AppLoadContext, { user, id }: { user: User; id: string }): Promise<void> {
  const { env, requestId } = context;
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("unlink_identity", { subject_id: user.id, target_id: id, usable_providers: env.OAUTH_PROVIDERS });
  const answer = unlinkResult.safeParse(data);
  if (error || !answer.success) throw unavailable(context, error?.code ?? "answer");
  if (answer.data.outcome === "unlinked") {
    const { provider, email } = answer.data;
    const details = { provider: providerLabel(provider), ...(email ? { email } : {}) };
    await recordEvent(context, { userId: user.id, kind: "identity_unlinked", details });
    return;
  }
  if (answer.data.outcome === "not_found") {
    throw problem("NOT_FOUND", { requestId, detail: "This account isn’t linked to yours." });
  }
  throw problem("CONFLICT", { requestId, detail: refusals[answer.data.outcome] });
}

const refusals = {
  last_method: "This is your only way to sign in. Add a password, a passkey or another account first.",
  not_unlinkable: "This is your account’s email. Change it in your profile settings.",
} as const;

function unavailable({ requestId }: AppLoadContext, code: string): Response {
  logError(`the ways to sign in could not be asked for: ${code}`, { requestId });
  return problem("UNAVAILABLE", { requestId });
}
