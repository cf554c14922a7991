import { z } from "zod";
import { providerListing, routeTestAnswer, routeTestRequest } from "#shared/provider-setup.ts";
import { testRouteOnRecord } from "../../admin/model-setup/recorded-test.ts";
import { modelKind } from "../../admin/models.ts";
import { describeGatewayFault, readProviderListing } from "../../gateway/provider-setup.ts";
import { problem } from "../../http/problem.ts";
import { changeBody, defineAct, defineChange, defineRead, version } from "../define.ts";
import { latestPrice, priceAmounts, priceScope } from "../fields.ts";
import { modelFields, routeFields } from "./models.ts";

export const modelSetupReads = {
  getProviderSettings: defineRead({
    summary: "Get the providers that the gateway is configured for",
    description: "Without addresses and keys. kinds says which settings each kind of provider needs.",
    answer: providerListing,
    async read({ context, signal }) {
      const { listing, fault } = await readProviderListing(context, { signal });
      if (listing) return listing;
      throw problem("UNAVAILABLE", { requestId: context.requestId, detail: describeGatewayFault(fault) });
    },
  }),
};

const routes = z.array(routeFields.omit({ position: true })).max(100);
const seen = z.number().int().min(0).max(1_000_000);
const prices = z.array(z.strictObject({ ...priceScope, latest: latestPrice, seen, ...priceAmounts })).max(100);
const planIds = z.array(z.string().min(1).max(32)).max(1_000);

export const modelSetupChanges = {
  setUpModel: defineChange({
    summary: "Add or change a whole model",
    description:
      "Saves its settings, routes, prices, grants to plans and whether it is enabled, all or nothing. version is null to add the model. routes and plans are complete lists; without routes, prices, plans or enabled, they stay as they are. If the answer is a refusal, param names the part.",
    body: changeBody.extend({
      version: version.nullable(),
      kind: modelKind,
      ...modelFields,
      isDefault: z.boolean(),
      defaultOfKind: z.string().max(128).nullable().describe("The default of the kind that you read."),
      routes: routes.optional(),
      prices: prices.optional(),
      plans: planIds.optional(),
      seenPlans: planIds.default([]).describe("The plans with a grant that you read."),
      enabled: z.boolean().optional(),
    }),
    example: {
      version: null,
      kind: "chat",
      displayName: "Demo Next",
      ownedBy: "demo",
      contextWindow: 128_000,
      outputLimit: 16_384,
      defaultOutputLimit: null,
      voices: [],
      studioDefault: true,
      isDefault: false,
      defaultOfKind: "demo-chat",
      plans: ["team"],
      enabled: false,
      reason: "New model",
    },
    change: ({ param }, values) => ({ ...values, model: param("modelId") }),
  }),
};

export const modelSetupActs = {
  testRoute: defineAct({
    summary: "Send one short request to a provider",
    description:
      "The provider may charge for it, so the audit log records it. The answer never contains a provider’s text.",
    body: routeTestRequest,
    example: { provider: "openai", model: "gpt-5", endpoint: "chat" },
    answer: routeTestAnswer,
    async act({ context, caller, signal }, test) {
      const tester = caller.person ? { actor: caller.id } : { serviceAccount: caller.id };
      const result = await testRouteOnRecord(context, { ...test, tester, signal });
      switch (result.outcome) {
        case "answered":
        case "failed": {
          const { outcome: _, ...answer } = result;
          return { outcome: "changed", answer };
        }
        case "refused":
          return {
            outcome: "refused",
            status: 400,
            message: "The gateway can’t make this request: the provider isn’t configured or lacks the endpoint.",
            ...(result.param === null ? {} : { field: result.param }),
          };
        case "fault":
          return { outcome: "refused", status: 503, message: describeGatewayFault(result.fault) };
      }
    },
  }),
};
