import { z } from "zod";
import { appScopes } from "../apps/app-rights.ts";

/** How a change to an app or client is presented. */
export interface RegistryStepText<Registration> {
  title: string;
  effects: (registration: Registration) => string[];
  /** Returns whether the change stops something from working immediately. `typed` is the form, once it was sent. */
  destroys?: (registration: Registration, typed: TypedForm | undefined) => boolean;
}

type TypedForm = Record<string, unknown>;

/** How many seconds the earlier secrets can keep working after a rotation. */
export const overlapLabels = {
  "0": "Stops working immediately",
  "3600": "Works for 1 more hour",
  "86400": "Works for 24 more hours",
};
export const overlapSeconds = z
  .enum(Object.keys(overlapLabels), "Choose when the current secret stops working")
  .transform(Number);

/** Returns whether the form of a rotation ends the earlier secrets immediately. */
export function endsSecretsNow(_: unknown, typed: TypedForm | undefined): boolean {
  return overlapSeconds.safeParse(typed?.overlapSeconds).data === 0;
}

/** Returns the scopes that are ticked in a form. */
export function readScopes(typed: TypedForm): string[] {
  return appScopes.flatMap(({ field, scope }) => (field in typed ? [scope] : []));
}

/** Returns the addresses in a text, one per line. */
export function readLines(text: unknown): string[] {
  return [...new Set(String(text ?? "").match(/\S+/g))];
}

/** Returns whether a form removes a scope or, from one of the `lists`, an address. */
export function removesEntries<List extends string>(
  registration: Record<List | "scopes", readonly string[]>,
  { typed, lists }: { typed: TypedForm; lists: readonly List[] },
): boolean {
  const removes = (before: readonly string[], after: readonly string[]) => before.some((each) => !after.includes(each));
  return (
    removes(registration.scopes, readScopes(typed)) ||
    lists.some((list) => removes(registration[list], readLines(typed[list])))
  );
}
