import { z } from "zod";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, readCookie, writeCookie } from "../http/cookies.ts";

const lastUsedMethod = z.union([
  z.enum(["password", "passkey", "email_code"]),
  z.templateLiteral(["oauth:", z.string().max(32)]),
]);

/** A sign-in method as marked on the sign-in page: `password`, `passkey`, `oauth:google`. */
export type LastUsedMethod = z.infer<typeof lastUsedMethod>;

/** Returns the last sign-in method used in this browser, or null. Only a hint for the order of buttons. */
export function readLastUsedMethod(context: CookieContext): LastUsedMethod | null {
  return lastUsedMethod.safeParse(readCookie(context, cookies.lastMethod)).data ?? null;
}

/**
 * Remembers this browser's sign-in method, which the sign-in page marks. Emailed links have no button to mark, so they
 * are not remembered.
 */
export function rememberMethod(context: CookieContext, method: string): void {
  const remembered = lastUsedMethod.safeParse(
    method === "sign_up" || method === "password_reset" ? "password" : method,
  );
  if (remembered.success) writeCookie(context, cookies.lastMethod, { value: remembered.data });
}

/** Moves the last used item to the front and keeps the order of the rest. */
export function lastUsedFirst<Item>(items: readonly Item[], isLastUsed: (item: Item) => boolean): Item[] {
  return [...items.filter(isLastUsed), ...items.filter((item) => !isLastUsed(item))];
}
