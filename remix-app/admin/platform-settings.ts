import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callFunction } from "../supabase/data-api.ts";
import { type Confirmation, reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";
import { type SignUpMode, signUpChanges } from "./sign-up-mode.ts";

export const signUpModeSchema = z.enum(["open", "invitation"]);

/** The form that changes who may sign up. `seen` is the mode that the admin saw. */
export const signUpChangeSchema = reasonedChangeSchema.extend({ seen: signUpModeSchema });

/** Returns what an admin types to leave a mode; null if it stops nothing. */
export function confirmSignUpChange(seen: SignUpMode): Confirmation | null {
  return signUpChanges[seen].destroys ? { text: "close sign-up", what: "the change that you make" } : null;
}

/** Returns who may sign up. @throws Response 503 UNAVAILABLE */
export async function readSignUpMode(context: AppLoadContext): Promise<SignUpMode> {
  const schema = z.object({ signUp: signUpModeSchema });
  return (await callFunction(context, { name: "private.read_platform_settings", schema })).signUp;
}

/** Opens or closes sign-up. Fails if another admin changed it since it was seen. */
export function changeSignUp(
  context: AppLoadContext,
  { admin, seen, reason }: z.output<typeof signUpChangeSchema> & { admin: InfrastructureAdmin },
): Promise<ConsoleChange> {
  const change = { seen, signUp: signUpChanges[seen].to, reason };
  return applyConsoleChange(context, { admin, name: "set_sign_up", change, refusals: {} });
}
