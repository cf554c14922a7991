import type { AppLoadContext } from "@remix-run/server-runtime";
import type { SupabaseClient } from "@supabase/supabase-js";
import type { Env } from "../env.server.ts";
import { createDataClient } from "./clients.ts";
import type { TokenBearer } from "./edge-proxy.ts";
import type { User } from "./user.ts";

/** Who reads: a user, or whom a token names that is still being judged. */
export interface Reader extends Pick<User, "id" | "sessionId"> {
  /** The Data API as this user, under row-level security. */
  readonly data: SupabaseClient;
}

/**
 * Begins to read what a page shows, for whom the request's token names, while the database is still asked whether its
 * session lives and what the account demands. For what only reads, in a loader that is called `early`.
 *
 * What it brings is had for a user alone, so only after `requireUser` or one like it has let them in; for whoever was
 * refused it is dropped. Where no token came, or it has been renewed meanwhile, it is read then.
 * @returns gives what was read, or throws what the reading threw
 */
export function beginReading<Found>(
  context: AppLoadContext,
  read: (reader: Reader) => Promise<Found>,
): (user: User) => Promise<Found> {
  const begun = context.bearer.then((bearer) => {
    if (!bearer) return null;
    const found = read(readerOf(context.env, bearer));
    // A refusal is answered as one, whatever became of the reading.
    found.catch(() => {});
    return { accessToken: bearer.accessToken, found };
  });
  begun.catch(() => {});
  return async (user) => {
    const { auth } = context.session;
    const early = await begun;
    return auth.status === "authenticated" && auth.accessToken === early?.accessToken ? early.found : read(user);
  };
}

function readerOf(env: Env, { userId: id, sessionId, accessToken }: TokenBearer): Reader {
  let data: SupabaseClient | undefined;
  return {
    id,
    sessionId,
    // Many a reading is our server's own, and to make a client takes longer than to read a session.
    get data() {
      data ??= createDataClient(env, accessToken);
      return data;
    },
  };
}
