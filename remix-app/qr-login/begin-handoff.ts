import type { AppLoadContext } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { type BegunChallenge, beginChallenge } from "../session/challenge.ts";
import type { User } from "../session/user.ts";

/**
 * Asks the phones of an account for a fresh session of it, on behalf of a browser that is signed in.
 * @throws Response 409 CONFLICT for an account without an email, for which no session can be minted; 429, 503
 */
export async function beginHandoff(context: AppLoadContext, user: User): Promise<BegunChallenge> {
  if (user.email !== "") return beginChallenge(context, { kind: "qr", user });
  const detail = "This account has no email, so no session can be handed over to it.";
  throw problem("CONFLICT", { requestId: context.requestId, detail });
}
