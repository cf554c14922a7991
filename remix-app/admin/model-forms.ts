import { z } from "zod";
import { maxCallSeconds } from "#shared/longest-call.ts";
import { utcTime } from "#shared/utc-time.ts";
import { isReadable } from "../http/readable.ts";
import { modelIdPattern, modelKind } from "./models.ts";
import { maxDefaultOutput } from "./prices/limits.ts";

const maxInteger = 2_147_483_647;

function createTextSchema(label: string, max: number) {
  return z
    .string({ error: `Enter ${label}` })
    .trim()
    .min(1, `Enter ${label}`)
    .max(max, `Enter at most ${max} characters`)
    .refine(isReadable, "Use one line of characters that can be seen");
}

function optionalNumber(max: number) {
  const error = `Enter a whole number from 1 to ${max.toLocaleString("en")}, or leave it empty`;
  const number = z
    .string()
    .trim()
    .regex(/^\d{1,10}$/, error)
    .transform(Number);
  return z
    .literal("")
    .transform(() => null)
    .or(number.pipe(z.number().min(1, error).max(max, error)));
}

const checkboxSchema = z
  .string()
  .optional()
  .transform((value) => value !== undefined);

const voices = z.string().transform((list) => [
  ...new Set(
    list
      .split(/[,\n]/)
      .map((voice) => voice.trim())
      .filter(Boolean),
  ),
]);

/** The settings of a model, and the version and the default of its kind that the admin saw. */
export const modelFields = z
  .object({
    kind: modelKind,
    displayName: createTextSchema("a name", 80),
    ownedBy: createTextSchema("who owns the model", 80),
    contextWindow: optionalNumber(maxInteger),
    outputLimit: optionalNumber(maxInteger),
    defaultOutputLimit: optionalNumber(maxDefaultOutput),
    voices,
    studioDefault: checkboxSchema,
    version: z.string(),
    isDefault: checkboxSchema,
    /** The id of the kind's default model when the page was loaded, or null. */
    defaultOfKind: z.string().transform((id) => id || null),
  })
  .refine(({ kind, voices: listed }) => (kind === "speech") === listed.length > 0, {
    path: ["voices"],
    error: "Enter at least one voice for a speech model, and none for other models",
  })
  .refine(({ kind, defaultOutputLimit }) => defaultOutputLimit === null || kind === "chat", {
    path: ["defaultOutputLimit"],
    error: "Leave it empty: only chat models have a default output limit",
  })
  .refine(
    ({ outputLimit, defaultOutputLimit }) =>
      outputLimit === null || defaultOutputLimit === null || defaultOutputLimit <= outputLimit,
    { path: ["defaultOutputLimit"], error: "Enter at most the output limit" },
  );

export const modelIdFields = z.object({
  id: z
    .string()
    .trim()
    .regex(
      modelIdPattern,
      "Enter an ID: 1 to 128 characters (A–Z, a–z, 0–9 and . _ : / -), without a part that is “.” or “..”",
    ),
});

export const versionFields = z.object({ version: z.string() });

/** A service tier as named in providers' answers. */
const tierName = /^[a-z][a-z0-9_-]{0,31}$/;
const multiplierPattern = /^\d{1,3}(\.\d{1,4})?$/;

/** Reads "flex 0.5, priority 2". */
const tierMultipliers = z.string().transform((list, context) => {
  const pairs = list
    .split(/[,\n]/)
    .map((pair) => pair.trim().split(/[\s=:]+/))
    .filter(([tier]) => tier);
  const right = pairs.every(
    ([tier = "", times = "", ...more]) =>
      tierName.test(tier) && tier !== "default" && multiplierPattern.test(times) && more.length === 0,
  );
  if (right && new Set(pairs.map(([tier]) => tier)).size === pairs.length) {
    return Object.fromEntries(pairs) as Record<string, string>;
  }
  context.addIssue({ code: "custom", message: "Enter tiers with their factors, such as flex 0.5, priority 2" });
  return z.NEVER;
});

/** The id of a provider, as in `AI_PROVIDER_<ID>_KIND` but in lower case. */
export const providerIdPattern = /^[a-z][a-z0-9_]{0,31}$/;

export const routeFields = z.object({
  providerId: z
    .string()
    .trim()
    .toLowerCase()
    .regex(providerIdPattern, "Enter the provider’s ID, such as openai for AI_PROVIDER_OPENAI_KIND"),
  providerModel: createTextSchema("the provider’s model name", 200),
  enabled: checkboxSchema,
  trustsStatedCost: checkboxSchema,
  tierMultipliers,
  firstByteSeconds: optionalNumber(maxCallSeconds),
  idleSeconds: optionalNumber(maxCallSeconds),
  totalSeconds: optionalNumber(maxCallSeconds),
});

/** The workspace that gets a model separately from its plan. */
export const grantFields = z.object({ workspace: z.string().trim().pipe(z.uuid("Enter a workspace ID")) });

/** An amount that fits the database column: at most 12 digits before the decimal point and 6 after it. */
const amountUsdSchema = z
  .string({ error: "Enter an amount in USD" })
  .trim()
  .regex(/^\d{1,12}(\.\d{1,6})?$/, "Enter an amount in USD with at most 6 decimals, such as 2.50");
export const optionalAmount = z
  .literal("")
  .transform(() => null)
  .or(amountUsdSchema);

/** The fields of a new price. `from` is a time in UTC to the minute; if it is empty, the price begins now. */
export const priceFields = z.object({
  latest: z
    .string()
    .regex(/^\d{0,18}$/)
    .transform((id) => id || null),
  seen: z.string().regex(/^\d{1,9}$/),
  from: z
    .literal("")
    .transform(() => null)
    .or(
      z
        .string()
        .transform((minute) => `${minute}:00Z`)
        .refine((time) => utcTime.safeParse(time).success, "Enter a date and a time, or leave it empty"),
    ),
  serviceTier: z
    .string()
    .trim()
    .transform((tier) => tier || "default")
    .pipe(z.string().regex(tierName, "Enter the tier as the provider names it, such as priority")),
  inputUsd: amountUsdSchema,
  cachedInputUsd: optionalAmount,
  cacheWriteUsd: optionalAmount,
  cacheWrite1hUsd: optionalAmount,
  outputUsd: amountUsdSchema,
  audioInputUsd: optionalAmount,
  audioOutputUsd: optionalAmount,
  imageInputUsd: optionalAmount,
  requestFeeUsd: optionalAmount,
});

/** The fields that cancel a scheduled price: the previous price and its end, as the admin saw them. */
export const cancelFields = z.object({
  previous: z
    .string()
    .regex(/^\d{0,18}$/)
    .transform((id) => id || null),
  until: z
    .literal("")
    .transform(() => null)
    .or(z.iso.datetime({ offset: true })),
});
