import type { SupabaseClient } from "@supabase/supabase-js";

/**
 * Removes every authenticator of an account through the admin API. The caller must have closed the account first.
 * @param service our server's own client
 * @returns whether no authenticator is left, regardless of the result of each deletion
 */
export async function removeFactors(service: SupabaseClient, userId: string): Promise<boolean> {
  const { mfa } = service.auth.admin;
  const { data: before } = await mfa.listFactors({ userId });
  for (const { id } of before?.factors ?? []) await mfa.deleteFactor({ id, userId });
  const { data: after } = await mfa.listFactors({ userId });
  return after !== null && after.factors.length === 0;
}
