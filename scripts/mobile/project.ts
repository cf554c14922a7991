import { readFileSync } from "node:fs";
import { z } from "zod";

/** The settings that are built into a mobile app: URLs and the public key. */
export interface MobileProject {
  /** The platform's URL. */
  base: string;
  /** The gateway's URL, without `/v1`. */
  ai: string;
  url: string;
  publishableKey: string;
}

const running = z.object({
  base: z.url(),
  ai: z.url(),
  supabase: z.object({ url: z.url(), publishableKey: z.string() }),
});

/**
 * Returns the project that the environment names, or else the running local stack.
 * @throws Error that says how to start the stack or name a project
 */
export function mobileProject(): MobileProject {
  const { BASE_URL, AI_URL, SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY, GATEHOUSE_STACK } = process.env;
  if (BASE_URL && SUPABASE_URL && SUPABASE_PUBLISHABLE_KEY && !GATEHOUSE_STACK) {
    const ai = AI_URL ?? `${SUPABASE_URL}/functions`;
    return { base: BASE_URL, ai, url: SUPABASE_URL, publishableKey: SUPABASE_PUBLISHABLE_KEY };
  }
  try {
    const { base, ai, supabase } = running.parse(
      JSON.parse(readFileSync(GATEHOUSE_STACK ?? ".local/stack.json", "utf8")),
    );
    return { base, ai, ...supabase };
  } catch {
    throw new Error(
      "No project: start the local stack (npm start), or set BASE_URL, SUPABASE_URL and SUPABASE_PUBLISHABLE_KEY.",
    );
  }
}
