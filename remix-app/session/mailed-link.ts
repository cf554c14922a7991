import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";

/**
 * The types of links in our emails. Supabase Auth also has `magiclink` and `email`, which sign people in and which we
 * do not use.
 */
export const linkSchema = z.object({
  token_hash: z.string().regex(/^[A-Za-z0-9_-]{16,256}$/),
  type: z.enum(["signup", "invite", "recovery", "email_change"]),
  next: z.string().optional(),
});

export type MailedLink = z.infer<typeof linkSchema>;

/**
 * Returns the email of the account that a link would sign in to, or null if the link was used or replaced. Does not use
 * the link up.
 * @throws Response 503 AUTH_UNAVAILABLE if the database does not answer
 */
export async function emailOfMailedLink(
  { env, requestId }: AppLoadContext,
  { token_hash, type }: Pick<MailedLink, "token_hash" | "type">,
): Promise<string | null> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("email_of_link", { token_hash, link_type: type });
  if (error) throw problem("AUTH_UNAVAILABLE", { requestId });
  return z.string().nullable().parse(data);
}

/** Masks an email for pages that anyone with a link can open: `a•••@example.com`. */
export function maskEmail(email: string): string {
  const at = email.lastIndexOf("@");
  const [first = ""] = email.slice(0, Math.max(at, 0));
  return `${first}•••${at < 0 ? "" : email.slice(at)}`;
}
