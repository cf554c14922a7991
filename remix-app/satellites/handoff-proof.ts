import { z } from "zod";
import type { KeyRing } from "../keys/key-ring.ts";
import { signToken, verifyToken } from "./signed-token.ts";

const second = z.number().int().nonnegative();

/** What a session had proved when it handed over, as private.required_mfa_proof tells it. */
export const handoffFacts = z.object({
  user: z.uuid(),
  target: z.string(),
  targetId: z.uuid(),
  session: z.uuid(),
  factor: z.uuid().nullable(),
  secondFactorAt: second.nullable(),
  primaryAt: second.nullable(),
  generation: second.nullable(),
  validUntil: z.string().nullable(),
  issuedAt: z.string(),
  expiresAt: z.string(),
});

export type HandoffFacts = z.infer<typeof handoffFacts>;

const type = "mfa-proof+jwt";

/** Signs the required-MFA proof of a handoff, bound to user and target. */
export function signProof(facts: HandoffFacts, keys: KeyRing): Promise<string> {
  return signToken(facts, { type, keys });
}

/** The facts of a proof that we signed for this app; null for any other. Whether they still hold is not asked here. */
export async function readProof(
  proof: string,
  { keys, appId }: { keys: KeyRing; appId: string },
): Promise<HandoffFacts | null> {
  const facts = handoffFacts.safeParse(await verifyToken(proof, { type, keys }));
  return facts.success && facts.data.targetId === appId ? facts.data : null;
}
