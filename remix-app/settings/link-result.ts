import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { failureText, type OAuthFailure, parseFailure } from "../oauth/failures.ts";
import { providerLabel } from "../oauth/providers.ts";

const cookieName = "gh_link_result";
const path = "/settings";
const maxAgeSeconds = 60;

/** What became of linking an account, for the card that it began in. */
export interface LinkNotice {
  tone: "good" | "warn";
  text: string;
}

type ResultContext = Pick<AppLoadContext, "jar" | "origin">;

const shape = z.string().regex(/^[a-z_]{1,32}:[a-z_]{0,32}$/);

/** The word for an account that was unlinked, where a link's failure stands. */
const unlinkedWord = "unlinked";

/** Leaves word of an unlinking for the settings page that the visitor is sent back to. */
export function leaveUnlinkResult(context: ResultContext, provider: string): void {
  leave(context, `${provider}:${unlinkedWord}`);
}

/** Leaves word of a link for the settings page that the visitor is sent back to. */
export function leaveLinkResult(
  context: ResultContext,
  { provider, failure = "" }: { provider: string; failure?: OAuthFailure | "" },
): void {
  leave(context, `${provider}:${failure}`);
}

function leave({ jar, origin }: ResultContext, word: string): void {
  const attributes = { path, httpOnly: true, sameSite: "lax", secure: origin.startsWith("https:") } as const;
  jar.set(cookieName, word, { ...attributes, maxAge: word ? maxAgeSeconds : 0 });
}

/** Takes the word that was left, once: for whoever sees the page, which nobody does of HEAD. */
export function takeLinkResult(context: ResultContext, { method }: Request): LinkNotice | null {
  const left = shape.safeParse(context.jar.get(cookieName));
  if (!left.success || method === "HEAD") return null;
  leave(context, "");
  const [provider = "", word = ""] = left.data.split(":");
  const label = providerLabel(provider);
  const failure = parseFailure(word);
  if (failure) return { tone: "warn", text: failureText(failure, provider) };
  if (word === unlinkedWord)
    return { tone: "good", text: `Your ${label} account is unlinked. It no longer signs you in.` };
  return word ? null : { tone: "good", text: `Your ${label} account is linked. You can sign in with it.` };
}
