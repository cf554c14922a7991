import type { AppLoadContext } from "@remix-run/server-runtime";
import type { Factor } from "@supabase/supabase-js";
import { problem } from "../http/problem.ts";

/** An authenticator app of an account. */
export interface Authenticator {
  id: string;
  name: string;
  verified: boolean;
  createdAt: string;
  /** When a code of it was last asked for. */
  lastUsedAt: string | null;
}

export const defaultName = "Authenticator app";

/**
 * The authenticator apps of the signed-in user, the one that was used last first; those whose enrollment was never
 * finished too.
 * @throws Response 503 AUTH_UNAVAILABLE where the identity backend did not say
 */
export async function listAuthenticators({ session, requestId }: AppLoadContext): Promise<Authenticator[]> {
  if (session.auth.status !== "authenticated") return [];
  const { data, error } = await session.mailClient().auth.getUser(session.auth.accessToken);
  if (error) throw problem("AUTH_UNAVAILABLE", { requestId });
  return (data.user.factors ?? [])
    .filter((factor) => factor.factor_type === "totp")
    .map(authenticatorOf)
    .sort((one, other) => (other.lastUsedAt ?? "").localeCompare(one.lastUsedAt ?? ""));
}

function authenticatorOf(factor: Factor): Authenticator {
  // In the backend's answers and not in the client's types.
  const { last_challenged_at } = factor as Factor & { last_challenged_at?: string | null };
  return {
    id: factor.id,
    name: factor.friendly_name || defaultName,
    verified: factor.status === "verified",
    createdAt: factor.created_at,
    lastUsedAt: last_challenged_at ?? null,
  };
}
