import type { AppLoadContext } from "@remix-run/server-runtime";
import { readAiPolicy } from "../policy/ai-policy.ts";

/** For how many days a workspace keeps what is said in its runs; null where it keeps nothing, or nobody can tell. */
export async function keptDays(
  context: AppLoadContext,
  member: { userId: string; workspaceId: string },
): Promise<number | null> {
  const policy = await readAiPolicy(context, member).catch(() => null);
  return policy?.contentCapture ? policy.contentRetentionDays : null;
}
