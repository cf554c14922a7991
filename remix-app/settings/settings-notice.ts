import { z } from "zod";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";

/**
 * The result of an action. `card` is the settings card that shows the result, and `done` is the card's keyword for the
 * result.
 */
export interface SettingsNotice {
  card: string;
  done: string;
}

const noticeSchema = z
  .string()
  .regex(/^[a-z-]{1,40}:[a-z_.-]{1,80}$/)
  .transform((value): SettingsNotice => {
    const [card = "", done = ""] = value.split(":");
    return { card, done };
  });

/** Leaves a notice for the settings page that the visitor is redirected to. */
export function leaveNotice(context: CookieContext, { card, done }: SettingsNotice): void {
  writeCookie(context, cookies.notice, { value: `${card}:${done}` });
}

/** Returns the notice once and removes it. A HEAD request leaves it, because its response is not shown. */
export function takeNotice(context: CookieContext, { method }: Request): SettingsNotice | null {
  const value = readCookie(context, cookies.notice);
  if (value === "" || method === "HEAD") return null;
  clearCookie(context, cookies.notice);
  return noticeSchema.safeParse(value).data ?? null;
}
