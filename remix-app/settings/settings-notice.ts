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

const shape = z
  .string()
  .regex(/^[a-z-]{1,40}:[a-z-]{1,40}$/)
  .transform((value): SettingsNotice => {
    const [card = "", done = ""] = value.split(":");
    return { card, done };
  });

/** Leaves word of a success for the settings page that the visitor is redirected to. */
export function leaveNotice({ jar, origin }: AppLoadContext, { card, done }: SettingsNotice): void {
  const secure = origin.startsWith("https:");
  jar.set(cookieName, `${card}:${done}`, { path, httpOnly: true, sameSite: "lax", secure, maxAge: maxAgeSeconds });
}

/** Takes the word that was left, once. */
export function takeNotice({ jar, origin }: AppLoadContext): SettingsNotice | null {
  const value = jar.get(cookieName);
  if (value === undefined) return null;
  jar.set(cookieName, "", { path, httpOnly: true, sameSite: "lax", secure: origin.startsWith("https:"), maxAge: 0 });
  return shape.safeParse(value).data ?? null;
}
