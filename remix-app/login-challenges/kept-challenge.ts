import type { AppLoadContext } from "@remix-run/server-runtime";
import type { ChallengeKey } from "./challenge.ts";

/** Longer than any challenge lives, so that a page can say that one has expired. */
const maxAgeSeconds = 15 * 60;
const part = /^[A-Za-z0-9_-]{1,64}$/;

/** Where a page keeps the challenge that its browser waits for, between one view of it and the next. */
export interface Keeping {
  name: string;
  path: string;
}

type JarContext = Pick<AppLoadContext, "jar" | "origin">;

/** Keeps a challenge for the pages below a path, and what else its page shows. */
export function keepChallenge(
  { jar, origin }: JarContext,
  { keeping, key, shown = "" }: { keeping: Keeping; key: ChallengeKey; shown?: string },
): void {
  const value = [key.id, key.secret, ...(shown ? [shown] : [])].join(".");
  const secure = origin.startsWith("https:");
  jar.set(keeping.name, value, {
    path: keeping.path,
    httpOnly: true,
    sameSite: "strict",
    secure,
    maxAge: maxAgeSeconds,
  });
}

/** What is kept, by the browser's word alone: whose challenge it is, the database says. */
export function keptChallenge({ jar }: JarContext, { name }: Keeping): (ChallengeKey & { shown: string }) | null {
  const [id, secret, shown = "", ...more] = (jar.get(name) ?? "").split(".");
  if (!id || !secret || more.length > 0) return null;
  return [id, secret, shown || "-"].every((text) => part.test(text)) ? { id, secret, shown } : null;
}

/** Forgets it. */
export function forgetChallenge({ jar, origin }: JarContext, { name, path }: Keeping): void {
  const secure = origin.startsWith("https:");
  jar.set(name, "", { path, httpOnly: true, sameSite: "strict", secure, maxAge: 0 });
}
