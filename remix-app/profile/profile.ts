import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { problem } from "../http/problem.ts";
import { displayNameSchema } from "../session/display-name.ts";
import type { User } from "../session/user.ts";

const maxAddressLength = 2_048;

/** The profile fields that people can edit. An empty picture URL means none. */
export const profileSchema = z.object({
  displayName: displayNameSchema,
  avatarUrl: z
    .string()
    .trim()
    .transform((text, issues) => {
      const url = URL.parse(text);
      const plain = url?.protocol === "https:" && url.username === "" && url.password === "";
      if (plain && url.href.length <= maxAddressLength) return url.href;
      issues.addIssue({ code: "custom", message: "Enter a URL that begins with https://." });
      return z.NEVER;
    })
    .optional(),
});

/**
 * Saves the user's profile.
 * @throws Response 503 UNAVAILABLE if the Data API did not answer
 */
export async function saveProfile(
  { requestId }: AppLoadContext,
  { user, displayName, avatarUrl }: z.infer<typeof profileSchema> & { user: User },
): Promise<void> {
  const { error } = await user.data
    .from("profiles")
    .update({ display_name: displayName, avatar_url: avatarUrl ?? null })
    .eq("id", user.id)
    .select("id")
    .single();
  if (!error) return;
  logError(`the profile could not be saved: ${error.code}`, { requestId });
  throw problem("UNAVAILABLE", { requestId });
}
