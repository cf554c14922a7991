import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";

const cookieName = "gh_settings_notice";
const path = "/settings";
const maxAgeSeconds = 60;

/** That something succeeded: the card it happened in, and a word of that card's own for what. */
export interface SettingsNotice {
  card: string;
  done: string;
}

type NoticeContext = Pick<AppLoadContext, "jar" | "origin">;

const shape = z
  .string()
  .regex(/^[a-z-]{1,40}:[a-z-]{1,40}$/)
  .transform((value): SettingsNotice => {
    const [card = "", done = ""] = value.split(":");
    return { card, done };
  });

/** Leaves word of a success for the settings page that the visitor is redirected to. */
export function leaveNotice({ jar, origin }: NoticeContext, { card, done }: SettingsNotice): void {
  const secure = origin.startsWith("https:");
  jar.set(cookieName, `${card}:${done}`, { path, httpOnly: true, sameSite: "lax", secure, maxAge: maxAgeSeconds });
}

/** Takes the word that was left, once: for whoever sees the page, which nobody does of HEAD. */
export function takeNotice({ jar, origin }: NoticeContext, { method }: Request): SettingsNotice | null {
  const value = jar.get(cookieName);
  if (value === undefined || method === "HEAD") return null;
  jar.set(cookieName, "", { path, httpOnly: true, sameSite: "lax", secure: origin.startsWith("https:"), maxAge: 0 });
  return shape.safeParse(value).data ?? null;
}
