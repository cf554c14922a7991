import type { CookieDefinition } from "../http/cookie-table.ts";
import { type CookieContext, readCookie, writeCookie } from "../http/cookies.ts";
import type { ChallengeKey } from "./challenge.ts";

const part = /^[A-Za-z0-9_-]{1,64}$/;

/** Keeps the challenge that a page's browser waits for, and what else the page shows. */
export function keepChallenge(
  context: CookieContext,
  cookie: CookieDefinition,
  { key, shown = "" }: { key: ChallengeKey; shown?: string },
): void {
  writeCookie(context, cookie, { value: [key.id, key.secret, ...(shown ? [shown] : [])].join(".") });
}

/** Reads what is kept, on the browser's word alone: the database says whose challenge it is. */
export function keptChallenge(
  context: CookieContext,
  cookie: CookieDefinition,
): (ChallengeKey & { shown: string }) | null {
  const [id, secret, shown = "", ...more] = readCookie(context, cookie).split(".");
  if (!id || !secret || more.length > 0) return null;
  return [id, secret, shown || "-"].every((text) => part.test(text)) ? { id, secret, shown } : null;
}
