import { z } from "zod";
import type { CookieJar } from "../http/cookies.ts";

const themes = ["system", "light", "dark"] as const;
export const themeSchema = z.enum(themes);
export type Theme = z.infer<typeof themeSchema>;

/** Made once: a schema takes longer to make than to read a cookie with. */
const keptTheme = themeSchema.catch("system");
const cookieName = "gh_theme";
const maxAgeSeconds = 365 * 24 * 60 * 60;

/** The reader's choice of appearance; `system` where they made none. */
export function readTheme(jar: CookieJar): Theme {
  return keptTheme.parse(jar.get(cookieName));
}

/** Keeps the reader's choice in this browser. */
export function writeTheme(jar: CookieJar, theme: Theme, { secure }: { secure: boolean }): void {
  const attributes = { httpOnly: true, sameSite: "lax", secure } as const;
  jar.set(cookieName, theme === "system" ? "" : theme, {
    ...attributes,
    maxAge: theme === "system" ? 0 : maxAgeSeconds,
  });
}
