import { z } from "zod";

/** How a change to an app or client is presented. */
export interface RegistryStepText<Registration> {
  title: string;
  effects: (registration: Registration) => string[];
  /** Returns whether the change with this form stops something from working immediately. */
  destroys?: (typed: Record<string, unknown>) => boolean;
}

/** How many seconds the earlier secrets keep working after a rotation. */
export const overlapSeconds = z.coerce.number().int().min(0).max(86_400);

/** Returns whether the form of a rotation ends the earlier secrets immediately. */
export function endsSecretsNow(typed: Record<string, unknown>): boolean {
  return overlapSeconds.safeParse(typed.overlapSeconds).data === 0;
}
