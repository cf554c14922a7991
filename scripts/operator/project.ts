import { readFileSync } from "node:fs";
import { z } from "zod";

const running = z.object({ supabase: z.object({ url: z.url(), secretKey: z.string() }) });

/**
 * Returns the project for an operator's command: the project from the environment, or else the running local stack.
 * Exits with an explanation if there is neither, or if only one of SUPABASE_URL and SUPABASE_SECRET_KEY is set.
 */
export function operatorProject(): { url: string; secretKey: string; development: boolean } {
  const { SUPABASE_URL, SUPABASE_SECRET_KEY, GATEHOUSE_STACK = ".local/stack.json" } = process.env;
  if (SUPABASE_URL && SUPABASE_SECRET_KEY)
    return { url: SUPABASE_URL, secretKey: SUPABASE_SECRET_KEY, development: false };
  // If only one is set, don't fall back to the local stack, since the operator means another project.
  if (SUPABASE_URL || SUPABASE_SECRET_KEY) {
    console.error(`Set ${SUPABASE_URL ? "SUPABASE_SECRET_KEY" : "SUPABASE_URL"} too, or neither for the local stack.`);
    process.exit(1);
  }
  try {
    const { supabase } = running.parse(JSON.parse(readFileSync(GATEHOUSE_STACK, "utf8")));
    return { ...supabase, development: true };
  } catch {
    console.error("No project: start the local stack (npm start), or set SUPABASE_URL and SUPABASE_SECRET_KEY.");
    process.exit(1);
  }
}
