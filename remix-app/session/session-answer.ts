import { z } from "zod";

/** Who is signed in. */
export const sessionAnswer = z.object({
  user: z.object({
    id: z.uuid(),
    email: z.string(),
    displayName: z.string().nullable(),
    avatarUrl: z.string().nullable(),
  }),
  sessionId: z.uuid(),
  aal: z.enum(["aal1", "aal2", "aal3"]),
  mfa: z.object({ required: z.boolean(), satisfied: z.boolean() }),
  activeAccountId: z.uuid(),
});
export type SessionAnswer = z.output<typeof sessionAnswer>;
