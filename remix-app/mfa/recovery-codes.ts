import { createHash, randomBytes } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { recordEvent } from "../activity/record-event.ts";
import { callFunction } from "../supabase/data-api.ts";

/** Crockford's base 32, in which no letter can be confused with a digit or another letter. */
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const codesPerSet = 10;
/** 80 bits: too many to try, even with access to the hashes. */
const codeBytes = 10;
const codeLength = 16;

/**
 * A recovery code as typed. Case, spaces and dashes are ignored, and look-alikes are read as the intended characters.
 */
const recoveryCodeSchema = z
  .string({ error: "Enter a recovery code." })
  .transform((text) => text.toUpperCase().replace(/[\s-]/g, "").replaceAll("O", "0").replace(/[IL]/g, "1"))
  .pipe(z.string().regex(/^[0-9A-HJKMNP-TV-Z]{16}$/, "Enter a recovery code, such as 7KQ2-M9XA-04TC-HW5E."));

/**
 * The recovery form. Contains a recovery code and what it is used for, or `finish` to complete a recovery that this
 * session began with an earlier code.
 */
export const recoverySchema = z
  .object({
    // Until 0.5.0: not `code`, with which servers of release 0.3.0 remove the authenticators for any intent.
    recoveryCode: recoveryCodeSchema.optional(),
    finish: z.literal("yes").optional(),
    intent: z.enum(["once", "replace"]).default("replace"),
  })
  .refine(({ recoveryCode, finish }) => recoveryCode !== undefined || finish !== undefined, {
    path: ["recoveryCode"],
    message: "Enter a recovery code.",
  });

export const recoveryStateSchema = z.object({
  left: z.number().int(),
  createdAt: z.string().nullable(),
  unfinished: z.boolean(),
});

/**
 * How many codes a user has left, when they were created, and whether this session used a code without finishing the
 * recovery.
 */
export type RecoveryState = z.infer<typeof recoveryStateSchema>;

/** @throws Response 503 UNAVAILABLE */
export function recoveryState(
  context: AppLoadContext,
  { id, sessionId }: { id: string; sessionId: string },
): Promise<RecoveryState> {
  const args = { subject_id: id, current_session_id: sessionId };
  return callFunction(context, { name: "private.mfa_recovery_state", args, schema: recoveryStateSchema });
}

/**
 * Replaces the user's recovery codes with ten new ones.
 * @returns the codes in groups of four; they can't be read again
 * @throws Response 503 UNAVAILABLE if it is unknown whether they are stored
 */
export async function createRecoveryCodes(context: AppLoadContext, userId: string): Promise<string[]> {
  const codes = Array.from({ length: codesPerSet }, newCode);
  const args = { subject_id: userId, code_hashes: codes.map((code) => recoveryCodeHash(code, userId)) };
  await callFunction(context, { name: "private.replace_mfa_recovery_codes", args, schema: z.null() });
  await recordEvent(context, { userId, kind: "recovery_codes_created" });
  return codes.map((code) => code.match(/.{4}/g)?.join("-") ?? code);
}

/** Returns the stored form of a code: see the comment on private.mfa_recovery_codes. */
export function recoveryCodeHash(code: string, userId: string): string {
  return createHash("sha256").update(`mfa-recovery-code ${userId} ${code}`).digest("hex");
}

function newCode(): string {
  let bits = BigInt(`0x${randomBytes(codeBytes).toString("hex")}`);
  let code = "";
  for (let index = 0; index < codeLength; index += 1) {
    code += alphabet[Number(bits & 31n)];
    bits >>= 5n;
  }
  return code;
}
