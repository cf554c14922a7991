import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { utcText } from "#shared/utc-time.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";

export const defaultName = "Authenticator app";

const authenticator = z.object({
  id: z.uuid(),
  name: z
    .string()
    .nullable()
    .transform((name) => name || defaultName),
  verified: z.boolean(),
  createdAt: utcText,
  /** The time at which the identity backend last created a challenge for this authenticator; null if never. */
  lastUsedAt: utcText.nullable(),
});
export const authenticators = z.array(authenticator);

export type Authenticator = z.infer<typeof authenticator>;

/**
 * Returns a user's authenticator apps, most recently used first, including those with an unfinished enrollment.
 * @throws Response 503 AUTH_UNAVAILABLE if the database did not answer
 */
export async function listAuthenticators({ env, requestId }: AppLoadContext, userId: string): Promise<Authenticator[]> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("account_authenticators", { subject_id: userId });
  const result = authenticators.safeParse(data);
  if (!error && result.success) return result.data;
  logError(`the authenticators could not be read: ${error?.code ?? "answer"}`, { requestId });
  throw problem("AUTH_UNAVAILABLE", { requestId });
}
