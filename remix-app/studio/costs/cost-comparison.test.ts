import { expect, test } from "vitest";
import { compareAll, compareProviders } from "./cost-comparison.ts";
import type { ReconciledMonth } from "./provider-import-schema.ts";

const monthOf = (provider: string, meteredUsd: string | null, importedUsd: string): ReconciledMonth => ({
  month: "2026-01",
  provider,
  meteredUsd,
  importedUsd,
  invoicedUsd: "0",
  importedDifferenceUsd: null,
  invoicedDifferenceUsd: "0",
  runs: 1,
  importedRecords: Number(importedUsd) > 0 ? 1 : 0,
  invoices: 0,
  accounts: [],
});

test("months add up by provider, and providers to all, to the last digit", () => {
  const providers = compareProviders([
    monthOf("openai", "0.1", "0.3"),
    monthOf("demo", "2", "0"),
    monthOf("openai", "0.2", "0.000000000001"),
    monthOf("unknown", "0", "0"),
  ]);
  expect(providers).toEqual([
    { provider: "demo", meteredUsd: "2", importedUsd: "0", differenceUsd: "-2", differencePercent: "-100" },
    {
      provider: "openai",
      meteredUsd: "0.3",
      importedUsd: "0.300000000001",
      differenceUsd: "0.000000000001",
      differencePercent: "0.000000000333",
    },
  ]);
  expect(compareAll(providers)).toMatchObject({ meteredUsd: "2.3", differenceUsd: "-1.999999999999" });
});

test("what a workspace hides is no amount", () => {
  const hidden = compareProviders([monthOf("openai", null, "0.3")]);
  expect(hidden).toEqual([
    { provider: "openai", meteredUsd: null, importedUsd: "0.3", differenceUsd: null, differencePercent: null },
  ]);
  expect(compareAll(hidden)).toMatchObject({ meteredUsd: null, differenceUsd: null });
  expect(compareAll([])).toBeNull();
});
