import type { Sql } from "../db.ts";
import { type Identity, listIdentities } from "./identities.ts";
import { many, type User } from "./users.ts";

export type Factor = {
  id: string;
  user_id: string;
  friendly_name: string | null;
  factor_type: "totp" | "webauthn" | "phone";
  status: "unverified" | "verified";
  created_at: Date;
  updated_at: Date;
  secret: string | null;
  phone: string | null;
  last_challenged_at: Date | null;
};

/** Returns a user's second factors, oldest first, including unverified ones. */
export function listFactors(sql: Sql, userId: string): Promise<Factor[]> {
  return many<Factor>(sql, "select * from auth.mfa_factors where user_id = $1 order by created_at, id", [userId]);
}

/** Converts an identity to its response format. */
function wireIdentity(identity: Identity) {
  return {
    identity_id: identity.id,
    id: identity.provider_id,
    user_id: identity.user_id,
    identity_data: Object.keys(identity.identity_data).length > 0 ? identity.identity_data : undefined,
    provider: identity.provider,
    last_sign_in_at: identity.last_sign_in_at ?? undefined,
    created_at: identity.created_at,
    updated_at: identity.updated_at,
    email: identity.email ?? undefined,
  };
}

/** Converts a factor to its response format, without its secret. */
export function wireFactor(factor: Factor) {
  return {
    id: factor.id,
    created_at: factor.created_at,
    updated_at: factor.updated_at,
    status: factor.status,
    friendly_name: factor.friendly_name || undefined,
    factor_type: factor.factor_type,
    phone: factor.phone ?? "",
    last_challenged_at: factor.last_challenged_at,
  };
}

/** Converts a user to its response format. Without `relations`, as in lists, identities are null and factors absent. */
export function wireUser(user: User, relations?: { identities: Identity[]; factors: Factor[] }) {
  return {
    id: user.id,
    aud: user.aud,
    role: user.role,
    email: user.email ?? "",
    email_confirmed_at: user.email_confirmed_at ?? undefined,
    invited_at: user.invited_at ?? undefined,
    phone: user.phone ?? "",
    phone_confirmed_at: user.phone_confirmed_at ?? undefined,
    confirmation_sent_at: user.confirmation_sent_at ?? undefined,
    confirmed_at: user.confirmed_at ?? undefined,
    recovery_sent_at: user.recovery_sent_at ?? undefined,
    new_email: user.email_change || undefined,
    new_phone: user.phone_change || undefined,
    email_change_sent_at: user.email_change_sent_at ?? undefined,
    reauthentication_sent_at: user.reauthentication_sent_at ?? undefined,
    last_sign_in_at: user.last_sign_in_at ?? undefined,
    app_metadata: user.raw_app_meta_data ?? {},
    user_metadata: user.raw_user_meta_data ?? {},
    factors: relations?.factors.length ? relations.factors.map(wireFactor) : undefined,
    identities: relations ? relations.identities.map(wireIdentity) : null,
    created_at: user.created_at,
    updated_at: user.updated_at,
    banned_until: user.banned_until ?? undefined,
    deleted_at: user.deleted_at ?? undefined,
    is_anonymous: user.is_anonymous,
  };
}

export type WireUser = ReturnType<typeof wireUser>;

/**
 * Loads the user with everything that responses contain.
 * @param options.shown identities to return instead of the stored ones
 */
export async function loadWireUser(
  sql: Sql,
  user: User,
  { overrides = [] }: { overrides?: Identity[] } = {},
): Promise<WireUser> {
  const stored = await listIdentities(sql, user.id);
  const identities = stored.map((identity) => overrides.find(({ id }) => id === identity.id) ?? identity);
  const factors = await listFactors(sql, user.id);
  return wireUser(user, { identities, factors });
}
