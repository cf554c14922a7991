import { z } from "zod";
import { maxCallSeconds } from "#shared/longest-call.ts";
import { utcTime } from "#shared/utc-time.ts";
import { listedModelSchema, modelIdPattern, modelKind, modelSchema, requireModel } from "../../admin/models.ts";
import { maxDefaultOutput } from "../../admin/prices/limits.ts";
import { problem } from "../../http/problem.ts";
import {
  type AdminCall,
  byKeys,
  changeBody,
  defineChange,
  defineList,
  defineRead,
  pickFields,
  reasonOnly,
  searchQuery,
  version,
  versionExample,
} from "../define.ts";
import { latestPrice, optionalCount, priceAmounts, priceScope, shortText, tierName } from "../fields.ts";

export const modelReads = {
  searchModels: defineList({
    summary: "List or search models",
    description: "Each with its current prices. q is a part of an ID or name.",
    field: "models",
    rows: listedModelSchema,
    name: "private.list_catalogue_models",
    order: byKeys(3, ({ sortsAs }: { sortsAs: string[] }) => sortsAs),
    query: searchQuery,
    args: ({ after, query }) => ({ term: query.q, after }),
  }),
  getModel: defineRead({
    summary: "Get a model",
    description: "With its settings, routes, all prices, plans and the first 100 workspaces with a grant of their own.",
    answer: z.object({ model: modelSchema }),
    read: async ({ context, param }) => ({ model: await requireModel(context, param("modelId")) }),
  }),
};

export const modelFields = {
  displayName: shortText(),
  ownedBy: shortText(),
  contextWindow: optionalCount(),
  outputLimit: optionalCount(),
  defaultOutputLimit: optionalCount(maxDefaultOutput),
  voices: z.array(shortText(64)).max(100),
  studioDefault: z.boolean(),
};

export const routeFields = z.strictObject({
  position: z.number().int().min(1).max(100),
  providerId: priceScope.providerId,
  providerModel: shortText(200),
  enabled: z.boolean(),
  trustsStatedCost: z.boolean(),
  tierMultipliers: z.record(
    tierName.refine((tier) => tier !== "default"),
    z.string().regex(/^\d{1,3}(\.\d{1,4})?$/),
  ),
  firstByteSeconds: optionalCount(maxCallSeconds),
  idleSeconds: optionalCount(maxCallSeconds),
  totalSeconds: optionalCount(maxCallSeconds),
});

/** A plan or a workspace, but not both. */
const grantee = changeBody
  .extend({
    plan: z.string().min(1).max(32).nullable().default(null),
    workspace: z.uuid().nullable().default(null),
  })
  .refine(({ plan, workspace }) => (plan === null) !== (workspace === null), {
    path: ["plan"],
    error: "Send either plan or workspace.",
  });

/** Returns the route that a path names. @throws Response 404 */
async function requireRoute({ context, param, integer }: AdminCall) {
  const model = await requireModel(context, param("modelId"));
  const route = model.routes.find(({ position }) => position === integer("position"));
  if (!route) throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This route doesn’t exist." });
  return { model: model.id, place: route.position, route };
}

const versionNote = "Refused if the model or its routes have changed since its version.";

export const modelChanges = {
  createModel: defineChange({
    summary: "Add a model",
    description: "It is disabled until you enable it. ID and kind never change.",
    body: changeBody.extend({
      id: z.string().regex(modelIdPattern),
      kind: modelKind,
      ...modelFields,
      contextWindow: modelFields.contextWindow.default(null),
      outputLimit: modelFields.outputLimit.default(null),
      defaultOutputLimit: modelFields.defaultOutputLimit.default(null),
      voices: modelFields.voices.default([]),
      studioDefault: modelFields.studioDefault.default(true),
    }),
    example: { id: "demo-next", kind: "chat", displayName: "Demo Next", ownedBy: "demo", reason: "Ticket 4711" },
    change: (_, { id, ...fields }) => ({ ...fields, model: id, version: null }),
  }),
  changeModel: defineChange({
    summary: "Change a model’s settings",
    description: `Changes only the given fields. isDefault makes it the default of its kind in place of defaultOfKind, the default that you read. ${versionNote}`,
    body: changeBody.extend({
      version,
      ...z.strictObject(modelFields).partial().shape,
      isDefault: z.boolean().optional(),
      defaultOfKind: z.string().max(128).nullable().optional(),
    }),
    example: { version: versionExample, outputLimit: 16384, reason: "New limit of the provider" },
    async change({ context, param }, changed) {
      const model = await requireModel(context, param("modelId"));
      const { id, isDefault, defaultOfKind } = model;
      return { ...pickFields(model, modelFields), isDefault, defaultOfKind, ...changed, model: id };
    },
  }),
  deleteModel: defineChange({
    summary: "Delete a model that was never enabled",
    description: versionNote,
    body: changeBody.extend({ version }),
    example: { version: versionExample, reason: "Added by mistake" },
    change: ({ param }, { version: seen }) => ({ model: param("modelId"), version: seen }),
  }),
  enableModel: defineChange({
    summary: "Enable a model",
    description: "Callers can use it if it has a route, a price and a grant.",
    ...reasonOnly,
    change: ({ param }) => ({ model: param("modelId"), enabled: true }),
  }),
  disableModel: defineChange({
    summary: "Disable a model",
    description: "Requests to it get 404. Its routes, prices, grants and runs stay.",
    ...reasonOnly,
    change: ({ param }) => ({ model: param("modelId"), enabled: false }),
  }),
  addModelRoute: defineChange({
    summary: "Add a route to a model",
    description: `Routes are tried in the order of their positions. ${versionNote}`,
    body: changeBody.extend({
      version,
      ...routeFields.shape,
      position: routeFields.shape.position.default(100),
      enabled: z.boolean().default(true),
      trustsStatedCost: z.boolean().default(false),
      tierMultipliers: routeFields.shape.tierMultipliers.default({}),
      firstByteSeconds: routeFields.shape.firstByteSeconds.default(null),
      idleSeconds: routeFields.shape.idleSeconds.default(null),
      totalSeconds: routeFields.shape.totalSeconds.default(null),
    }),
    example: { version: versionExample, providerId: "openai", providerModel: "gpt-5", reason: "Fallback" },
    change: ({ param }, { version: seen, reason: _, ...route }) => ({
      model: param("modelId"),
      version: seen,
      place: null,
      route,
    }),
  }),
  changeModelRoute: defineChange({
    summary: "Change or move a route",
    description: `Changes only the given fields. ${versionNote}`,
    body: changeBody.extend({ version, ...routeFields.partial().shape }),
    example: { version: versionExample, position: 2, reason: "Prefer the cheaper provider" },
    async change(call, { version: seen, reason: _, ...changed }) {
      const { route, ...named } = await requireRoute(call);
      return { ...named, version: seen, route: { ...route, ...changed } };
    },
  }),
  removeModelRoute: defineChange({
    summary: "Remove a route",
    description: `The provider’s prices stay. ${versionNote}`,
    body: changeBody.extend({ version }),
    example: { version: versionExample, reason: "Contract ended" },
    change: ({ param, integer }, { version: seen }) => ({
      model: param("modelId"),
      version: seen,
      place: integer("position"),
      route: null,
    }),
  }),
  addModelPrice: defineChange({
    summary: "Add a price",
    description:
      "Ends the previous price of the same tier when it begins. Without from, it begins now. latest is the highest ID, and seen the number, of the prices that you read of the provider and minInputTokens in all tiers; if they have changed, nothing is added. With replaces, neither if another price has begun since.",
    body: changeBody.extend({
      ...priceScope,
      from: utcTime.nullable().default(null).describe("When the price begins. Null for now."),
      latest: latestPrice,
      seen: z.number().int().min(0).max(1_000_000),
      replaces: latestPrice.optional().describe("The ID of the price that you read as the one to replace, or null."),
      ...priceAmounts,
    }),
    example: { providerId: "openai", latest: 7, seen: 1, inputUsd: "2.50", outputUsd: "10", reason: "New price list" },
    change: ({ param }, values) => ({ ...values, model: param("modelId") }),
  }),
  cancelModelPrice: defineChange({
    summary: "Cancel a price that has not begun",
    description:
      "previous is the ID of the price that ends when it begins, or null, and until its own end, as you read them.",
    body: changeBody.extend({ previous: latestPrice, until: utcTime.nullable() }),
    example: { previous: 7, until: null, reason: "Postponed" },
    change: ({ param, integer }, { previous, until }) => ({
      model: param("modelId"),
      price: integer("priceId"),
      previous,
      until,
    }),
  }),
  grantModel: defineChange({
    summary: "Grant a model to a plan or workspace",
    body: grantee,
    example: { plan: "team", reason: "Included in the plan" },
    change: ({ param }, { plan, workspace }) => ({ model: param("modelId"), plan, workspace, granted: true }),
  }),
  withdrawModel: defineChange({
    summary: "Withdraw a model from a plan or workspace",
    body: grantee,
    example: { plan: "team", reason: "No longer included" },
    change: ({ param }, { plan, workspace }) => ({ model: param("modelId"), plan, workspace, granted: false }),
  }),
};
