import { z } from "zod";

/** The version of the file's format. */
export const apiVersion = "gatehouse/v1";

const maxInteger = 2_147_483_647;
const id = z
  .string()
  .regex(/^[A-Za-z0-9._:/-]{1,128}$/, "must be 1 to 128 letters, digits or . _ : / -")
  .refine((text) => !text.split("/").some((part) => part === "." || part === ".."), "must have no part . or ..");
const shortId = z.string().regex(/^[a-z][a-z0-9_]{0,31}$/, "must be 1 to 32 of a–z, 0–9 and _, a letter first");
const appName = z.string().regex(/^[a-z][a-z0-9-]{1,39}$/, "must be 2 to 40 of a–z, 0–9 and -, a letter first");
const label = z.string().min(1).max(200);
const uri = z.string().min(1).max(2_000);
const workspaceId = z.uuid().toLowerCase();
const tierName = z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, "must be a service tier as the provider names it");

/** Amounts are text, since YAML's numbers are floats. */
function decimal(pattern: RegExp, example: string) {
  const message = `must be a decimal in quotes, such as "${example}"`;
  return z
    .string({ error: ({ input }) => (input === undefined ? undefined : message) })
    .regex(pattern, message)
    .transform(normalizeDecimal);
}

/** Returns a decimal without zeros that don't change its value. */
function normalizeDecimal(text: string): string {
  return text
    .replace(/^0+(?=\d)/, "")
    .replace(/(\.\d*?)0+$/, "$1")
    .replace(/\.$/, "");
}

/** Returns whether a time exists. Date turns February 30 into March 2. */
function isDate(text: string): boolean {
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text.slice(0, 16));
}

const price = decimal(/^\d{1,12}(\.\d{1,6})?$/, "2.50");
const credits = decimal(/^\d{1,12}(\.\d{1,8})?$/, "5000");
const budgetUsd = decimal(/^\d{1,12}(\.\d{1,12})?$/, "50");
const optionalPrice = price.nullable().default(null);
const count = (max: number) => z.int().min(1).max(max).nullable().default(null);
const seconds = count(14_400);
/** A list whose order means nothing: sorted, without duplicates. */
const setOf = <Item extends z.ZodType<string>>(item: Item) =>
  z.array(item).transform((items) => [...new Set<string>(items)].toSorted());
const emptySet = <Item extends z.ZodType<string>>(item: Item) => setOf(item).default([]);

const rateLimits = { requestsPerMinute: count(maxInteger), tokensPerMinute: count(Number.MAX_SAFE_INTEGER) };

const planSchema = z.strictObject({
  id: shortId,
  name: label,
  payer: z.enum(["member", "workspace"]),
  markup: decimal(/^\d{1,3}(\.\d{1,6})?$/, "1.2").default("1"),
  initialCredits: credits.default("0"),
  lowCredits: credits.nullable().default(null),
  ...rateLimits,
});

const routeSchema = z.strictObject({
  providerId: shortId,
  providerModel: label,
  enabled: z.boolean().default(true),
  trustsStatedCost: z.boolean().default(false),
  tierMultipliers: z
    .record(tierName, decimal(/^\d{1,3}(\.\d{1,4})?$/, "0.5"))
    .transform((tiers) => Object.fromEntries(Object.entries(tiers).toSorted(([a], [b]) => (a < b ? -1 : 1))))
    .default({}),
  firstByteSeconds: seconds,
  idleSeconds: seconds,
  totalSeconds: seconds,
});

const priceSchema = z.strictObject({
  providerId: shortId,
  serviceTier: tierName.default("default"),
  minInputTokens: z.int().min(0).max(maxInteger).default(0),
  /** When the price begins, in UTC. Null for the price that is in force. */
  from: z
    .string()
    .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z$/, "must be a time in UTC, such as 2027-01-01T00:00:00Z")
    .refine(isDate, "is not a date")
    .transform((text) => `${new Date(text).toISOString().slice(0, 19)}Z`)
    .nullable()
    .default(null),
  inputUsd: price,
  outputUsd: price,
  cachedInputUsd: optionalPrice,
  cacheWriteUsd: optionalPrice,
  cacheWrite1hUsd: optionalPrice,
  audioInputUsd: optionalPrice,
  audioOutputUsd: optionalPrice,
  imageInputUsd: optionalPrice,
  requestFeeUsd: optionalPrice,
});

const modelSchema = z.strictObject({
  id,
  kind: z.enum(["chat", "embedding", "speech"]),
  displayName: label,
  ownedBy: label,
  enabled: z.boolean().default(true),
  /** Whether calls that name no model get this one. One model of each kind at most. */
  isDefault: z.boolean().default(false),
  studioDefault: z.boolean().default(true),
  contextWindow: count(maxInteger),
  outputLimit: count(maxInteger),
  defaultOutputLimit: count(maxInteger),
  /** In order: the first one is the default. */
  voices: z.array(label).default([]),
  /** In the order in which calls try them. */
  routes: z.array(routeSchema).optional(),
  prices: z.array(priceSchema).optional(),
  grants: z.strictObject({ plans: emptySet(shortId), workspaces: emptySet(workspaceId) }).optional(),
});

const limitSchema = z.strictObject({ providerId: shortId, ...rateLimits });

const appSchema = z.strictObject({
  name: appName,
  displayName: label,
  kind: z.enum(["internal", "external"]),
  enabled: z.boolean().default(true),
  scopes: emptySet(label),
  origins: emptySet(uri),
  logoutUrl: uri.nullable().default(null),
  workspaces: setOf(workspaceId).optional(),
});

const clientSchema = z.strictObject({
  name: appName,
  displayName: label,
  isPublic: z.boolean().default(false),
  enabled: z.boolean().default(true),
  scopes: emptySet(label),
  redirectUris: emptySet(uri),
  postLogoutRedirectUris: emptySet(uri),
  logoutUrl: uri.nullable().default(null),
  allowsDeviceGrant: z.boolean().default(false),
  requiresPkce: z.boolean().default(true),
  claimsInIdToken: z.boolean().default(false),
  groupsWorkspaceId: workspaceId.nullable().default(null),
});

const policySchema = z.strictObject({
  allowedModels: setOf(id).nullable().default(null),
  deniedModels: emptySet(id),
  allowedRegions: setOf(label).nullable().default(null),
  ...rateLimits,
  modelLimits: z
    .array(z.strictObject({ model: id, ...rateLimits }))
    .transform((limits) => limits.toSorted((a, b) => (a.model < b.model ? -1 : 1)))
    .default([]),
  providerCostVisible: z.boolean().default(true),
  contentCapture: z.boolean().default(false),
  contentRetentionDays: z.int().min(1).max(365).default(30),
});

const budgetSchema = z
  .strictObject({
    scope: z.enum(["workspace", "app", "label"]),
    /** The app's name or the label. Null for the workspace. */
    subject: z.string().min(1).max(128).nullable().default(null),
    period: z.enum(["day", "week", "month", "total", "concurrent"]).default("month"),
    limitUsd: budgetUsd.nullable().default(null),
    maxCalls: z.int().min(0).max(1_000_000).nullable().default(null),
    timeZone: z.string().max(64).default("UTC"),
    thresholds: z
      .array(z.int().min(1).max(100))
      .max(5)
      .transform((percents) => [...new Set(percents)].toSorted((a, b) => a - b))
      .default([50, 80, 100]),
    reservesExpected: z.boolean().default(false),
  })
  .refine(({ scope, subject }) => (scope === "workspace") === (subject === null), {
    path: ["subject"],
    error: "must be the app’s name or the label, and absent for the workspace",
  })
  .refine(({ period, limitUsd, maxCalls }) => (period === "concurrent" ? limitUsd === null : maxCalls === null), {
    path: ["period"],
    error: "concurrent has maxCalls, and all others have limitUsd",
  })
  .refine(({ limitUsd, maxCalls }) => limitUsd !== null || maxCalls !== null, {
    path: ["limitUsd"],
    error: "is required: to have no budget, leave it out of the list",
  });

const workspaceSchema = z.strictObject({
  id: workspaceId,
  planId: shortId.optional(),
  policy: policySchema.optional(),
  budgets: z.array(budgetSchema).optional(),
});

/**
 * What `platform.yaml` holds. Its fields have the names that they have in the API. An absent field has its default; an
 * absent list, plan or policy is not managed. Parsing returns the normal form, in which equal settings are equal text.
 */
export const platformSchema = z.strictObject({
  apiVersion: z.literal(apiVersion, `must be ${apiVersion}. Another release may use another version`),
  signUp: z.enum(["open", "invitation"]).optional(),
  plans: z.array(planSchema).optional(),
  models: z.array(modelSchema).optional(),
  providerLimits: z.array(limitSchema).optional(),
  apps: z.array(appSchema).optional(),
  openidClients: z.array(clientSchema).optional(),
  workspaces: z.array(workspaceSchema).optional(),
});
export type Platform = z.output<typeof platformSchema>;

/**
 * Parses the platform of a server. Leaves out objects with values that a file cannot state, such as a null that only SQL
 * can write, so that one of them does not stop work on all others.
 * @returns the platform, and a sentence about each object that was left out; null if another release wrote it
 */
export function parseLivePlatform(live: object): { platform: Platform; leftOut: readonly string[] } | null {
  const leftOut: string[] = [];
  const isOtherRelease = (code: string) => code === "unrecognized_keys";
  const lists = Object.entries(live).map(([list, items]) => {
    if (!Array.isArray(items)) return [list, items];
    const readable = items.filter((item: Partial<Record<string, unknown>> | null) => {
      const { error } = platformSchema.safeParse({ apiVersion, [list]: [item] });
      if (!error || error.issues.some(({ code }) => isOtherRelease(code))) return true;
      const [issue] = error.issues;
      const name = item?.id ?? item?.name ?? item?.providerId;
      leftOut.push(`${list} ${String(name)}: ${issue?.path.slice(2).join(".")} ${issue?.message}`);
      return false;
    });
    return [list, readable];
  });
  const { data } = platformSchema.safeParse(Object.fromEntries(lists));
  return data ? { platform: data, leftOut } : null;
}

/** The policy of a workspace that has set none. */
export const defaultPolicy = policySchema.parse({});

/** Returns the defaults of the fields that can be absent. */
function defaultsOf(schema: z.ZodObject): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(schema.shape).flatMap(([name, field]) => {
      const absent = z.safeParse(field, undefined);
      return absent.success ? [[name, absent.data]] : [];
    }),
  );
}

/** The defaults by kind of object. An export leaves out fields that have them. */
export const defaults = {
  plans: defaultsOf(planSchema),
  models: defaultsOf(modelSchema),
  routes: defaultsOf(routeSchema),
  prices: defaultsOf(priceSchema),
  providerLimits: defaultsOf(limitSchema),
  apps: defaultsOf(appSchema),
  openidClients: defaultsOf(clientSchema),
  policies: defaultsOf(policySchema),
  budgets: defaultsOf(budgetSchema),
};
