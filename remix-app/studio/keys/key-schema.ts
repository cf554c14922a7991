import { z } from "zod";
import { labelPattern } from "#shared/labels.ts";
import { exactUtcText } from "#shared/utc-time.ts";
import { isNetworkAddress } from "../../http/network-address.ts";
import { isReadable } from "../../http/readable.ts";
import { amountText } from "../../ui/format-amount.ts";
import { agentEnvelope, agentTool } from "../agents/agent-schema.ts";
import { budgetAmount } from "../budgets/budget-amount.ts";

const rateLimitSchema = z.number().int().min(1).max(1_000_000_000);

/** An IP address, or a CIDR network without bits set after its prefix. */
const networkSchema = z
  .string()
  .max(64)
  .refine(isNetworkAddress, "must be an address or a network, such as 192.0.2.0/24");

/** The latest expiry. Later times have a year of more than four digits in UTC. */
const maxExpiryMs = Date.parse("9999-12-31T23:59:59Z");

/** The request body that creates a key. Parse its JSON with `parseBudgets`, which keeps all digits of the budget. */
export const newKeySchema = z.strictObject({
  name: z.string().trim().min(1).max(100).refine(isReadable, "must be one line of characters that can be seen"),
  environment: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/)
    .optional(),
  allowedModels: z
    .array(z.string().regex(/^[A-Za-z0-9._:/-]{1,128}$/))
    .max(100)
    .nullish(),
  externalAppId: z.uuid().nullish(),
  expiresAt: z.iso
    .datetime({ offset: true })
    .refine((text) => Date.parse(text) > Date.now(), "must be in the future")
    .refine((text) => Date.parse(text) <= maxExpiryMs, "must be before the year 10000")
    .nullish(),
  requestsPerMinute: rateLimitSchema.nullish(),
  tokensPerMinute: rateLimitSchema.nullish(),
  monthlyBudgetUsd: budgetAmount.nullish(),
  allowedAddresses: z.array(networkSchema).max(100).nullish(),
  /** Refuses requests with parameters or tools that the provider would not receive. */
  strict: z.boolean().nullish(),
  /** The entity label of all runs with this key. The label's budget can then refuse the key's requests. */
  entityId: z.string().regex(labelPattern).nullish(),
});

export type NewKey = z.infer<typeof newKeySchema>;

/** The settings of a key that can change. Omitted settings stay as they are; null removes a limit. */
const keyChanges = newKeySchema.omit({ externalAppId: true, entityId: true }).partial();
export type KeyChanges = z.infer<typeof keyChanges>;

/** The request body that changes a key. Parse its JSON with `parseBudgets`. */
export const keyChangeSchema = keyChanges.extend({
  /** The key's `version` that the caller read. If the key has changed since, nothing is changed. */
  version: z.string().max(64).optional(),
});

export const rotationSchema = z.strictObject({ overlapSeconds: z.number().int().min(0).max(86_400).default(0) });

const nullableTimeSchema = exactUtcText.nullable();

/** A key's details for its managers, as returned by `ai.key_summary`. */
export const keySummary = z.object({
  id: z.uuid(),
  /** The same for a key and the keys that it replaced. They share their budget and spend. */
  lineageId: z.uuid(),
  /** Differs after each change of the key's settings or budget. */
  version: z.string(),
  name: z.string(),
  prefix: z.string(),
  environment: z.string(),
  createdAt: exactUtcText,
  createdBy: z.string().nullable(),
  lastUsedAt: nullableTimeSchema,
  expiresAt: nullableTimeSchema,
  revokedAt: nullableTimeSchema,
  replacedBy: z.uuid().nullable(),
  state: z.enum(["active", "replaced", "expired", "revoked"]),
  allowedModels: z.array(z.string()).nullable(),
  allowedAddresses: z.array(z.string()).nullable(),
  strict: z.boolean(),
  entityId: z.string().nullable(),
  requestsPerMinute: z.number().nullable(),
  tokensPerMinute: z.number().nullable(),
  /**
   * The key's spend in the current UTC month as an exact string. Includes the spend of the keys that it replaced. Null
   * for a replaced key, so that each amount is counted once, and if provider cost is hidden.
   */
  spentThisMonthUsd: amountText.nullable(),
  /**
   * The coding agent that renews the key, what the gateway answers to it, and when its login ends. `over`: its sign-in or
   * its member's access has ended. `envelope` is the latest one that holds all of its calls.
   */
  agent: z
    .object({
      tool: agentTool,
      host: z.string(),
      status: z.enum(["good", "over", "mfa_required", "unavailable"]),
      endsAt: nullableTimeSchema,
      envelope: agentEnvelope.nullable(),
    })
    .nullable(),
  externalApp: z.object({ id: z.uuid(), name: z.string(), enabled: z.boolean() }).nullable(),
  /** The amounts are exact strings. What was spent is null under the same conditions as `spentThisMonthUsd`. */
  budget: z.object({ limitUsd: amountText, spentUsd: amountText.nullable() }).nullable(),
});

export type KeySummary = z.infer<typeof keySummary>;

/** A key with the latest keys that it replaced, newest first. */
export const currentKey = keySummary.extend({ replaced: z.array(keySummary) });
export type CurrentKey = z.infer<typeof currentKey>;

/** A page of keys, and whether the workspace may create more. */
export const keyPage = z.object({
  approval: z.object({ approvedAt: exactUtcText }).nullable(),
  keys: z.array(keySummary),
  nextCursor: z.string().nullable(),
});
export type KeyPage = z.output<typeof keyPage>;

/** A new key. No other response contains its secret. */
export const issuedKey = z.object({ key: keySummary, secret: z.string() });
export type IssuedKey = z.output<typeof issuedKey>;
