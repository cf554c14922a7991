import { readFileSync } from "node:fs";
import { z } from "zod";

const stackSchema = z.looseObject({
  base: z.url(),
  satellites: z.array(z.object({ name: z.string(), url: z.url() })),
  ai: z.url(),
  supabase: z.object({ url: z.url(), publishableKey: z.string(), secretKey: z.string(), dbUrl: z.string() }),
  mail: z.object({ smtp: z.string(), web: z.url() }),
  provider: z.url(),
  providerKey: z.string(),
  oidc: z.url(),
  users: z.array(
    z.object({
      role: z.enum(["user", "admin", "finance"]),
      email: z.email(),
      password: z.string(),
      totpSecret: z.string().optional(),
    }),
  ),
  workspaceId: z.uuid(),
  aiKey: z.string(),
  appKey: z.string(),
  externalApp: z.object({ name: z.string(), secret: z.string() }),
  gatewayDbUrl: z.string(),
  services: z.array(z.object({ name: z.string(), pid: z.number(), port: z.number() })),
});

/** A running stack's description of itself: addresses, keys and demo sign-ins, as in `.local/stack.json`. */
export type Stack = z.infer<typeof stackSchema>;

/**
 * Reads the description of the stack under test from the file that `GATEHOUSE_STACK` names.
 * @throws Error naming the variable and the remedy if it is unset, unreadable or invalid
 */
export function readStack(): Stack {
  const file = process.env.GATEHOUSE_STACK;
  if (!file)
    throw new Error(
      "GATEHOUSE_STACK is not set: run the tests with `npm test`, or set it to .local/stack.json of a running `npm start -- --test-models`.",
    );
  return readStackFile(file);
}

/**
 * Reads the description of a stack that a test started itself.
 * @throws Error if the file does not describe one
 */
export function readStackFile(file: string): Stack {
  const parsed = stackSchema.safeParse(JSON.parse(readFileSync(file, "utf8")));
  if (!parsed.success) throw new Error(`${file} does not describe a running stack: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}
