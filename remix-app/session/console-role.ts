import { z } from "zod";

/**
 * A person's role in the console, or null. The role finance opens only the platform's books. A role that only a later
 * version of this server knows opens nothing.
 */
export const consoleRoleSchema = z.enum(["admin", "finance"]).nullable().catch(null);
export type ConsoleRole = NonNullable<z.infer<typeof consoleRoleSchema>>;
