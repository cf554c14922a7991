import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";

/** A year. It is a name and nothing else, so it outlives the session and a sign-out. */
const maxAgeSeconds = 365 * 24 * 60 * 60;

type HintContext = Pick<AppLoadContext, "jar" | "origin">;

const cookieName = ({ origin }: HintContext) => `${origin.startsWith("https:") ? "__Host-" : ""}gh_last_method`;

const lastUsedMethod = z.union([z.enum(["password", "passkey"]), z.templateLiteral(["oauth:", z.string().max(32)])]);

/** A way to sign in, as the sign-in page marks it: `password`, `passkey`, `oauth:google`. */
export type LastUsedMethod = z.infer<typeof lastUsedMethod>;

/** By what this browser signed in last, whoever it was; null where it never did. A hint for the order of buttons. */
export function readLastUsedMethod(context: HintContext): LastUsedMethod | null {
  return lastUsedMethod.safeParse(context.jar.get(cookieName(context))).data ?? null;
}

/** Remembers by what this browser signed in. Links from mails are no button, so they leave what was there. */
export function rememberMethod(context: HintContext, method: string): void {
  const remembered = lastUsedMethod.safeParse(
    method === "sign_up" || method === "password_reset" ? "password" : method,
  );
  if (!remembered.success) return;
  const secure = context.origin.startsWith("https:");
  const attributes = { path: "/", httpOnly: true, sameSite: "lax", secure, maxAge: maxAgeSeconds } as const;
  context.jar.set(cookieName(context), remembered.data, attributes);
}

/** The list with what was used last in front; the rest stays as it was. */
export function lastUsedFirst<Item>(items: readonly Item[], isLastUsed: (item: Item) => boolean): Item[] {
  return [...items.filter(isLastUsed), ...items.filter((item) => !isLastUsed(item))];
}
