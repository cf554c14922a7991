import { z } from "zod";
import { reasonSchema } from "../admin/console-change.ts";
import { createAddressLinesSchema } from "../admin/registry.ts";
import { overlapSeconds } from "../admin/registry-steps.ts";
import { isNetworkAddress } from "../http/network-address.ts";
import { isReadable } from "../http/readable.ts";
import type { AccountStep } from "./account-steps.ts";
import type { ServiceAccountOwner } from "./owner.ts";
import { readTickedScopes } from "./scope-field.ts";
import type { ServiceAccount } from "./service-accounts.ts";

const maxAddresses = 50;
const maxExpiryMs = 366 * 86_400_000;

const name = z
  .string()
  .trim()
  .min(1, "Enter a name")
  .max(100, "Enter at most 100 characters")
  .refine(isReadable, "Use one line of characters that can be seen");

const allowedAddresses = createAddressLinesSchema({
  max: maxAddresses,
  what: "addresses",
  faultOf: (line) => (isNetworkAddress(line) ? null : `${line} isn’t an IP address or a network, such as 192.0.2.0/24`),
});

/**
 * Reads the last day of a service account, in UTC. The day of the present expiry means that the expiry stays.
 * @param current the present expiry; null for a new service account
 */
function expirySchema(current: string | null) {
  return z.iso.date("Choose a day").transform((day, context) => {
    if (current !== null && current.slice(0, 10) === day) return current;
    const expiresAt = `${day}T23:59:59Z`;
    const aheadMs = Date.parse(expiresAt) - Date.now();
    if (aheadMs > 0 && aheadMs <= maxExpiryMs) return expiresAt;
    context.addIssue({ code: "custom", message: "Choose a day from today to a year from now" });
    return z.NEVER;
  });
}

/** Workspaces have no log of reasons. */
const noReason = z
  .string()
  .optional()
  .transform(() => "");

const reasonOf = ({ workspaceId }: ServiceAccountOwner) => (workspaceId === null ? reasonSchema : noReason);

function settingFields(current: string | null) {
  return {
    name,
    scopes: z.array(z.string()).min(1, "Choose at least one scope"),
    expiresAt: expirySchema(current),
    allowedAddresses,
  };
}

/** Returns a form's values with the ticked scopes as `scopes`, and the field `expiresOn` as `expiresAt`. */
function withSettings(typed: Record<string, unknown>, owner: ServiceAccountOwner): Record<string, unknown> {
  return { ...typed, scopes: readTickedScopes(typed, owner.scopes), expiresAt: typed.expiresOn };
}

/** Parses the form that creates a service account. */
export function parseNewAccount(form: FormData, owner: ServiceAccountOwner) {
  const schema = z.object({
    ...settingFields(null),
    credential: z.enum(["secret", "key"], "Choose how the program authenticates"),
    publicKey: z.string().default(""),
    reason: reasonOf(owner),
  });
  return schema.safeParse(withSettings(Object.fromEntries(form), owner));
}
export type NewAccount = NonNullable<ReturnType<typeof parseNewAccount>["data"]>;

const version = z.string().max(100).default("");

/** Parses the form of a change to a service account. The result names the step. */
export function parseAccountChange(
  form: FormData,
  { owner, account, step }: { owner: ServiceAccountOwner; account: ServiceAccount; step: AccountStep },
) {
  const common = { version, reason: reasonOf(owner) };
  const schema = z.discriminatedUnion("step", [
    z.object({ step: z.literal("edit"), ...common, ...settingFields(account.expiresAt) }),
    z.object({ step: z.enum(["enable", "disable", "revoke"]), ...common }),
    z.object({ step: z.literal("rotate"), ...common, overlapSeconds }),
    z.object({ step: z.literal("add-key"), ...common, publicKey: z.string().default("") }),
    z.object({ step: z.literal("remove"), ...common, credential: z.uuid() }),
  ]);
  return schema.safeParse({ ...withSettings(Object.fromEntries(form), owner), step });
}
export type AccountChange = NonNullable<ReturnType<typeof parseAccountChange>["data"]>;

/** Returns the form fields of errors whose values have other names. */
export function nameFields(fields: Record<string, string[] | undefined>): Record<string, string[] | undefined> {
  const { expiresAt, ...others } = fields;
  return expiresAt ? { ...others, expiresOn: expiresAt } : others;
}
