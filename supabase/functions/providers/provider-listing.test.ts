import { describe, expect, test } from "vitest";
import { kinds } from "../_gateway/providers/kinds/registry.ts";
import { readProviders } from "../_gateway/providers/provider-settings.ts";
import { listMissingSettings, providerSettingName } from "../_shared/provider-setting-names.ts";
import { providerListing } from "../_shared/provider-setup.ts";
import { describeProviders } from "./provider-listing.ts";

const kindNames = Object.keys(kinds) as (keyof typeof kinds)[];
/** Values that must not appear in the list. */
const address = "https://secret-host.example.com/secret-path/v1";
const key = "sk-secret-key";

const none = describeProviders(new Map());

/** Returns settings with a value for each of the names. */
function fillSettings(names: readonly string[], kind: string): Record<string, string> {
  const valueFor = (name: string) => (name.endsWith("_KIND") ? kind : name.endsWith("_API_KEY") ? key : address);
  return Object.fromEntries(names.map((name) => [name, valueFor(name)]));
}

describe.for(kindNames)("the kind %s", (kind) => {
  const id = "eu_llm";
  const missing = listMissingSettings(none, { id, kind });

  test(`a provider of kind ${kind} works with exactly the settings that are listed as missing`, () => {
    const settings = fillSettings(missing, kind);
    expect(readProviders(settings, { local: false }).get(id)?.kind.name).toBe(kind);
    for (const name of missing) {
      const { [name]: _, ...others } = settings;
      const read = () => readProviders(others, { local: false }).get(id)?.kind.name;
      const hasAddress = providerSettingName(id, "BASE_URL") in others;
      // A provider with an address but no kind is of the default kind.
      if (name === providerSettingName(id, "KIND") && hasAddress) expect(read()).toBe("openai-compatible");
      else if (Object.keys(others).length === 0) expect(read()).toBeUndefined();
      else expect(read).toThrow();
    }
  });

  test(`a configured provider of kind ${kind} misses nothing, and the list has neither its key nor its address`, () => {
    const providers = readProviders(
      {
        [providerSettingName(id, "KIND")]: kind,
        [providerSettingName(id, "BASE_URL")]: address,
        [providerSettingName(id, "API_KEY")]: key,
        [providerSettingName(id, "REGION")]: "eu",
        [providerSettingName(id, "BILLING_NAME")]: "openai",
        [providerSettingName(id, "ACCOUNT")]: "acct-1",
      },
      { local: false },
    );
    const listing = describeProviders(providers);
    expect(listMissingSettings(listing, { id, kind })).toEqual([]);
    expect(listing.providers).toEqual([
      {
        id,
        kind,
        endpoints: Object.keys(kinds[kind].endpoints),
        region: "eu",
        billingName: "openai",
        account: "acct-1",
        hasKey: true,
      },
    ]);
    expect(JSON.stringify(listing)).not.toMatch(/secret/);
  });
});

test("lists all kinds, and the settings that each needs", () => {
  expect(none.providers).toEqual([]);
  expect(none.kinds.map(({ name }) => name)).toEqual(kindNames);
  const needsOf = (kind: string) => none.kinds.find(({ name }) => name === kind)?.needs;
  expect(needsOf("openai")).toEqual(["KIND", "API_KEY"]);
  expect(needsOf("azure")).toEqual(["KIND", "BASE_URL", "API_KEY"]);
  expect(needsOf("vllm")).toEqual(["KIND", "BASE_URL"]);
  expect(needsOf("openai-compatible")).toEqual(["BASE_URL"]);
  expect(providerListing.parse(none)).toEqual(none);
});

test("lists providers by id, with the endpoints that their settings allow, and says which have no key", () => {
  const listing = describeProviders(
    readProviders(
      {
        AI_PROVIDER_ZETA_KIND: "openai",
        AI_PROVIDER_ZETA_API_KEY: key,
        AI_PROVIDER_ZETA_ENDPOINTS: "chat",
        AI_PROVIDER_ALPHA_BASE_URL: address,
      },
      { local: false },
    ),
  );
  expect(listing.providers).toMatchObject([
    { id: "alpha", kind: "openai-compatible", region: null, billingName: null, account: null, hasKey: false },
    { id: "zeta", kind: "openai", endpoints: ["chat"], hasKey: true },
  ]);
});

test("a provider of an unknown kind misses at least its kind", () => {
  expect(listMissingSettings(none, { id: "eu_llm", kind: null })).toEqual(["AI_PROVIDER_EU_LLM_KIND"]);
  expect(listMissingSettings(none, { id: "eu_llm", kind: "of a later release" })).toEqual(["AI_PROVIDER_EU_LLM_KIND"]);
});
