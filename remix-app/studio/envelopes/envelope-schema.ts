import { z } from "zod";
import { labelPattern } from "#shared/labels.ts";
import { exactUtcText, utcTime } from "#shared/utc-time.ts";
import { pageQuery } from "../../http/list-page.ts";
import { amountText } from "../../ui/format-amount.ts";
import { budgetAmount } from "../budgets/budget-amount.ts";

const envelopeStates = ["open", "ended", "expired"] as const;

const nullableTimeSchema = exactUtcText.nullable();
const nullableAmountSchema = amountText.nullable();

/** An envelope, which pages call a task limit. Amounts are exact strings in USD. */
export const envelope = z.object({
  id: z.uuid(),
  /** Differs after each change of the limits or the state. */
  version: z.string(),
  state: z.enum(envelopeStates),
  /** Whether a call was refused since the limits were last raised. */
  waiting: z.boolean(),
  /** The key or person whose calls it holds. `id` is the key's lineage. The name is null after a deletion. */
  principal: z.object({ kind: z.enum(["key", "member"]), id: z.uuid(), name: z.string().nullable() }),
  /** The newest key of the lineage. */
  keyId: z.uuid().nullable(),
  /** The key's creator, or the person. */
  owner: z.string().nullable(),
  /** The label of the calls that it holds. Empty if it has none. */
  label: z.string(),
  /** Whether it was opened for all calls of the principal, with any label or none. */
  holdsAll: z.boolean(),
  limitUsd: amountText,
  /** Null, like reservedUsd and remainingUsd, if the workspace hides provider cost. */
  spentUsd: nullableAmountSchema,
  reservedUsd: nullableAmountSchema,
  remainingUsd: nullableAmountSchema,
  /** The maximum number of calls, or null. */
  calls: z.number().nullable(),
  usedCalls: z.number(),
  remainingCalls: z.number().nullable(),
  lastRefusedAt: nullableTimeSchema,
  openedAt: exactUtcText,
  /** The person who opened it. Null if a call did. */
  openedBy: z.string().nullable(),
  /** The amounts with which it was opened, which calls that join it must name. */
  openedUsd: amountText,
  openedCalls: z.number().nullable(),
  endsAt: exactUtcText,
  /** When a person ended it. */
  endedAt: nullableTimeSchema,
  endedBy: z.string().nullable(),
  /** Whether another envelope was opened in its place, so that it can't be resumed. */
  replaced: z.boolean(),
});
export type Envelope = z.infer<typeof envelope>;

export const envelopeAnswer = z.object({ envelope });

/** A page of envelopes, newest first. */
export const envelopePage = z.object({
  costVisible: z.boolean(),
  envelopes: z.array(envelope),
  nextCursor: z.string().nullable(),
});

export const envelopeQuery = pageQuery.extend({
  state: z
    .string()
    .default(envelopeStates.join())
    .transform((text) => text.split(","))
    .pipe(z.array(z.enum(envelopeStates)).min(1)),
  waiting: z.enum(["true", "false"]).optional(),
});

const callLimit = z.number().int().min(1).max(1_000_000_000);
const positiveAmount = budgetAmount.refine((amount) => amount !== "0", "must be more than 0");
/** The maximum time from now to an envelope's end. `ai.is_envelope_end` has the same limit. */
const maxSeconds = 366 * 86_400;

/** The request body that opens an envelope. Parse its JSON with `parseLimits`. */
export const newEnvelope = z
  .strictObject({
    /** Without a key, it holds the member's own calls. */
    keyId: z.uuid().optional(),
    /** Without a label, it holds all calls of the key or member. */
    label: z.string().regex(labelPattern).optional(),
    limitUsd: positiveAmount,
    calls: callLimit.nullish(),
    ttlSeconds: z.number().int().min(1).max(maxSeconds).optional(),
    endsAt: utcTime.optional(),
  })
  .refine(({ ttlSeconds, endsAt }) => ttlSeconds === undefined || endsAt === undefined, {
    error: "Send ttlSeconds or endsAt, not both.",
    path: ["endsAt"],
  });
export type NewEnvelope = z.infer<typeof newEnvelope>;

/** New limits. Omitted ones stay as they are. */
const limitChanges = z.strictObject({
  limitUsd: budgetAmount.optional(),
  /** Null removes the limit of calls. */
  calls: callLimit.nullable().optional(),
  endsAt: utcTime.optional(),
});
export type LimitChanges = z.infer<typeof limitChanges>;

/** The request body that changes or ends an envelope. Parse its JSON with `parseLimits`. */
export const envelopeChange = limitChanges
  .extend({
    /** Ends the envelope for good. */
    ended: z.literal(true).optional(),
    /** The envelope's `version` that the caller read. If the envelope has changed since, nothing is changed. */
    version: z.string().max(64).optional(),
  })
  .refine(({ ended, version }) => ended === true || version !== undefined, {
    error: "Send the version of the envelope that you read.",
    path: ["version"],
  })
  .refine(
    ({ ended, limitUsd, calls, endsAt }) =>
      ended === undefined || [limitUsd, calls, endsAt].every((limit) => limit === undefined),
    { error: "Send ended alone.", path: ["ended"] },
  );
