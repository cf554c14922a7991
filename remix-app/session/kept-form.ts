import { z } from "zod";
import type { Env } from "../config/env.server.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { isForm, readForm } from "../http/form.ts";
import { derivedKey, hmac, isSignature } from "../keys/derived-key.ts";

/** With the other cookies of a browser that has ten accounts below what servers take. */
const maxTextLength = 2_000;

type KeptContext = CookieContext & { env: Pick<Env, "SUPABASE_SECRET_KEY"> };
type FormContext = Parameters<typeof readForm>[1];

const kept = z.object({ until: z.number(), typed: z.record(z.string(), z.string()) });

/**
 * Keeps what a form brought that came too late for its sender's proof, in their browser and for its page, until they
 * are back from proving it again. For forms without secrets; one that is too long, or none, is not kept.
 * @param page the path of the page that holds the form, with its query, which may say whom it is about
 */
export async function keepForm(
  context: KeptContext & FormContext,
  { request, userId, page }: { request: Request; userId: string; page: string },
): Promise<void> {
  if (!isForm(request)) return;
  const form = await readForm(request.clone(), context).catch(() => null);
  if (!form) return;
  const typed = Object.fromEntries(form);
  const text = Buffer.from(
    JSON.stringify({ until: Date.now() + cookies.keptForm.maxAgeSeconds * 1_000, typed }),
  ).toString("base64url");
  if (text.length > maxTextLength) return;
  const signature = signatureOf(context, { text, userId, page }).toString("base64url");
  writeCookie(context, cookies.keptForm, { value: `${text}.${signature}` });
}

/** Takes what was kept of a page's form, once, for whoever sent it; where that is nothing, an empty record. */
export function takeForm(
  context: KeptContext,
  { request, userId }: { request: Request; userId: string },
): Record<string, string> {
  const [text = "", signature = ""] = readCookie(context, cookies.keptForm).split(".");
  const expected = signatureOf(context, { text, userId, page: request.url });
  // Of another page or person, or set by a sibling, which would have somebody send what they never typed.
  if (!isSignature(signature, expected)) return {};
  // HEAD changes nothing.
  if (request.method !== "HEAD") clearCookie(context, cookies.keptForm);
  const { until, typed } = kept.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
  return until > Date.now() ? typed : {};
}

function signatureOf(
  { env, origin }: KeptContext,
  { text, userId, page }: { text: string; userId: string; page: string },
): Buffer {
  // In one spelling: Remix writes the query of an address anew.
  const { pathname, searchParams } = new URL(page, origin);
  return hmac(derivedKey(env, "kept form"), `${userId} ${pathname}?${searchParams} ${text}`);
}
