import { z } from "zod";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";

const themes = ["system", "light", "dark"] as const;
export const themeSchema = z.enum(themes);
export type Theme = z.infer<typeof themeSchema>;

const savedThemeSchema = themeSchema.catch("system");

/** Returns the chosen appearance, or `system` if none was chosen. */
export function readTheme(context: CookieContext): Theme {
  return savedThemeSchema.parse(readCookie(context, cookies.theme));
}

export function writeTheme(context: CookieContext, theme: Theme): void {
  if (theme === "system") clearCookie(context, cookies.theme);
  else writeCookie(context, cookies.theme, { value: theme });
}
