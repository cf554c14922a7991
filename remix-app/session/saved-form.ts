import { deflateRawSync, inflateRawSync } from "node:zlib";
import { z } from "zod";
import type { Env } from "../config/env.server.ts";
import { deriveServerKey, hmac, isSignature } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { isForm, readForm } from "../http/form.ts";

/** Together with the other cookies of a browser with ten accounts, this stays below what servers accept. */
const maxTextLength = 2_000;
/** The limits of the form with the most fields. Its compressed text still has to fit. */
export const largestForm = { maxFields: 2_000, maxValueLength: 40_000 };

type SigningContext = CookieContext & { env: Pick<Env, "SUPABASE_SECRET_KEY"> };
type FormContext = Parameters<typeof readForm>[1];

const savedForm = z.object({ until: z.number(), typed: z.record(z.string(), z.string()) });

/**
 * Stores a form in a cookie if the sender's step-up expired before the form arrived. The form's page restores the
 * fields after the next step-up. Only for forms without secrets. Does not store a form that is too long.
 * @param form the form, if its body has been read
 * @param page the path of the form's page with its query, which may name the account that the form changes
 */
export async function saveForm(
  context: SigningContext & FormContext,
  {
    request,
    userId,
    page,
    form: read,
  }: { request: Request; userId: string; page: string; form?: FormData | undefined },
): Promise<void> {
  if (!isForm(request)) return;
  const form = read ?? (await readForm(request, context, largestForm).catch(() => null));
  if (!form) return;
  const typed = Object.fromEntries(form);
  const until = Date.now() + cookies.savedForm.maxAgeSeconds * 1_000;
  const text = deflateRawSync(JSON.stringify({ until, typed })).toString("base64url");
  if (text.length > maxTextLength) return;
  const signature = signatureOf(context, { text, userId, page }).toString("base64url");
  writeCookie(context, cookies.savedForm, { value: `${text}.${signature}` });
}

/**
 * Returns a page's stored form once, to the person who sent it. Returns an empty record if the form is missing or
 * invalid.
 */
export function takeForm(
  context: SigningContext,
  { request, userId }: { request: Request; userId: string },
): Record<string, string> {
  const [text = "", signature = ""] = readCookie(context, cookies.savedForm).split(".");
  const expected = signatureOf(context, { text, userId, page: request.url });
  // The cookie belongs to another page or person, or a sibling host set it. Restoring it would make the person submit
  // text that they never typed.
  if (!isSignature(signature, expected)) return {};
  // HEAD changes nothing.
  if (request.method !== "HEAD") clearCookie(context, cookies.savedForm);
  const { until, typed } = savedForm.parse(JSON.parse(inflateRawSync(Buffer.from(text, "base64url")).toString()));
  return until > Date.now() ? typed : {};
}

function signatureOf(
  { env, origin }: SigningContext,
  { text, userId, page }: { text: string; userId: string; page: string },
): Buffer {
  // Serializes the query again, because Remix rewrites the query of a URL and the signature must stay the same.
  const { pathname, searchParams } = new URL(page, origin);
  return hmac(deriveServerKey(env, "saved form"), `${userId} ${pathname}?${searchParams} ${text}`);
}
