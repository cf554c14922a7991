import { expect, test } from "vitest";
import type { ModelSetup } from "./read-setup.ts";
import { failAtPart } from "./save-setup.ts";

const setup = {
  version: "v1",
  routes: [{ providerId: "openai" }, { providerId: "azure" }],
  prices: [{ providerId: "azure" }],
} as ModelSetup;

test.each<[string | undefined, string | null, string | null]>([
  ["routes.1", "v1", "route2_providerModel"],
  ["routes.2", "v1", null],
  ["prices.0", "v1", "price_azure_inputUsd"],
  ["prices.1", "v1", null],
  ["plans.team", "v1", "plan_team"],
  ["settings", "v1", null],
  ["settings", null, "id"],
  ["routes", "v1", null],
  ["enabled", "v1", null],
  [undefined, "v1", null],
])("shows the refusal of %s in version %s at %s", (part, version, field) => {
  const refusal = { outcome: "refused", status: 409, message: "Taken.", ...(part ? { part } : {}) } as const;
  expect(failAtPart(refusal, { setup: { ...setup, version }, typed: { id: "x" } })).toEqual({
    message: field === null ? "Taken." : null,
    fields: field === null ? {} : { [field]: ["Taken."] },
    typed: { id: "x" },
  });
});
