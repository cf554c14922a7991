import { z } from "zod";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, readCookie, writeCookie } from "../http/cookies.ts";

const lastUsedMethod = z.union([z.enum(["password", "passkey"]), z.templateLiteral(["oauth:", z.string().max(32)])]);

/** A way to sign in, as the sign-in page marks it: `password`, `passkey`, `oauth:google`. */
export type LastUsedMethod = z.infer<typeof lastUsedMethod>;

/** By what this browser signed in last, whoever it was; null where it never did. A hint for the order of buttons. */
export function readLastUsedMethod(context: CookieContext): LastUsedMethod | null {
  return lastUsedMethod.safeParse(readCookie(context, cookies.lastMethod)).data ?? null;
}

/** Remembers by what this browser signed in. Links from mails are no button, so they leave what was there. */
export function rememberMethod(context: CookieContext, method: string): void {
  const remembered = lastUsedMethod.safeParse(
    method === "sign_up" || method === "password_reset" ? "password" : method,
  );
  if (remembered.success) writeCookie(context, cookies.lastMethod, { value: remembered.data });
}

/** The list with what was used last in front; the rest stays as it was. */
export function lastUsedFirst<Item>(items: readonly Item[], isLastUsed: (item: Item) => boolean): Item[] {
  return [...items.filter(isLastUsed), ...items.filter((item) => !isLastUsed(item))];
}
