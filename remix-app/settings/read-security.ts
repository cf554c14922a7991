import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { authenticators } from "../mfa/authenticators.ts";
import { recoveryStateSchema } from "../mfa/recovery-codes.ts";
import { passkeyRows } from "../passkeys/passkeys.ts";
import { accessState } from "../session/account-access.ts";
import { sessionPage, sessionPosition, sessionRows } from "../session/account-sessions.ts";
import { signInMethods } from "../session/sign-in-methods.ts";
import type { User } from "../session/user.ts";
import { callFunction } from "../supabase/data-api.ts";

const securityPage = z.object({
  methods: signInMethods,
  passkeys: passkeyRows,
  authenticators,
  recoveryCodes: recoveryStateSchema,
  sessions: sessionRows,
  /** At most 1,001. */
  sessionCount: z.number(),
  access: accessState,
});

const sessionsShown = 20;

/**
 * Reads what the security page shows of an account, except its log.
 * @param options.cursor the `nextCursor` of an earlier page of sessions
 * @throws Response 400 INVALID_REQUEST if the cursor is not ours, 503 UNAVAILABLE if the database did not answer
 */
export async function readSecurity(
  context: AppLoadContext,
  { user, cursor }: { user: User; cursor: string | undefined },
) {
  const { sessions, sessionCount, ...cards } = await callFunction(context, {
    name: "private.read_security_page",
    args: {
      subject_id: user.id,
      current_session_id: user.sessionId,
      sessions_before: sessionPosition(context, cursor),
      sessions_page_size: sessionsShown + 1,
    },
    schema: securityPage,
  });
  return { ...cards, sessions: { ...sessionPage(sessions, { user, limit: sessionsShown }), count: sessionCount } };
}
