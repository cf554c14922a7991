import { describe, expect, test } from "vitest";
import { maxCallSeconds } from "../../_shared/longest-call.ts";
import { kinds } from "./kinds/registry.ts";
import { readProviders } from "./provider-settings.ts";

const read = (settings: Record<string, string>, local = false) =>
  readProviders(Object.fromEntries(Object.entries(settings).map(([end, value]) => [`AI_PROVIDER_${end}`, value])), {
    local,
  });

describe("Settings of a provider", () => {
  test("a provider's settings identify the provider by id and define how to call it", () => {
    const providers = read({
      OPENAI_KIND: "openai",
      OPENAI_API_KEY: "k",
      OPENAI_BILLING_NAME: "openai",
      OPENAI_ACCOUNT: "org-1",
      OPENAI_REGION: "eu",
      OWN_LLM_BASE_URL: "https://llm.example.com/v1/",
      OWN_LLM_ON_LEAVE: "drain",
    });
    expect([...providers.keys()]).toEqual(["openai", "own_llm"]);
    expect(providers.get("openai")).toMatchObject({
      baseUrl: "https://api.openai.com/v1",
      apiKey: "k",
      kind: kinds.openai,
      billingName: "openai",
      account: "org-1",
      region: "eu",
      allowPrivate: false,
      drains: false,
    });
    expect(providers.get("own_llm")).toMatchObject({
      baseUrl: "https://llm.example.com/v1",
      apiKey: undefined,
      region: undefined,
      kind: kinds["openai-compatible"],
      drains: true,
    });
  });

  test("a provider's empty settings count as unset", () => {
    expect(read({ X_KIND: "", X_API_KEY: "", X_NOT_KNOWN: "" }).size).toBe(0);
  });

  test("a provider's settings override its kind's endpoints, output limit field and stream_options", () => {
    const own = { OWN_BASE_URL: "https://llm.example.com/v1" };
    const changed = { OWN_ENDPOINTS: "chat, embeddings", OWN_OUTPUT_LIMIT: "max_completion_tokens" };
    const kind = read({ ...own, ...changed, OWN_STREAM_OPTIONS: "on" }).get("own")?.kind;
    expect(Object.keys(kind?.endpoints ?? {})).toEqual(["chat", "embeddings"]);
    expect(kind).toMatchObject({ outputLimit: "max_completion_tokens", streamOptions: ["include_usage"] });
    const openai = { O_KIND: "openai", O_API_KEY: "k" };
    expect(read({ ...openai, O_STREAM_OPTIONS: "on" }).get("o")?.kind.streamOptions).toEqual(
      kinds.openai.streamOptions,
    );
    expect(read({ ...openai, O_STREAM_OPTIONS: "off" }).get("o")?.kind.streamOptions).toEqual([]);
  });

  const own = { X_BASE_URL: "https://llm.example.com/v1" };
  test.for<[string, Record<string, string>, string[]]>([
    [
      "a misspelt address setting",
      { OPENAI_BASEURL: "https://api.openai.com/v1" },
      ["AI_PROVIDER_OPENAI_BASEURL", "_BASE_URL"],
    ],
    ["a misspelt key setting", { ...own, X_APIKEY: "secret" }, ["AI_PROVIDER_X_APIKEY", "_API_KEY"]],
    ["a setting in lower case", { ...own, x_api_key: "secret" }, ["AI_PROVIDER_x_api_key", "_API_KEY"]],
    ["an unknown setting", { ...own, X_TIMEOUT: "5" }, ["AI_PROVIDER_X_TIMEOUT", "BASE_URL, API_KEY"]],
    ["a setting without a provider id", { KIND: "openai" }, ["AI_PROVIDER_KIND"]],
    ["an id that begins with a digit", { "1_KIND": "openai" }, ["AI_PROVIDER_1_KIND"]],
    ["an unknown kind", { ...own, X_KIND: "opnai" }, ["AI_PROVIDER_X_KIND must be one of", "openai-compatible"]],
    ["an unknown region", { ...own, X_REGION: "eu-west-1" }, ["AI_PROVIDER_X_REGION must be one of eu, "]],
    ["a kind named like a built-in property", { ...own, X_KIND: "toString" }, ["AI_PROVIDER_X_KIND must be one of"]],
    ["a kind that needs an address but has none", { X_KIND: "vllm" }, ["AI_PROVIDER_X_BASE_URL is missing", "vllm"]],
    [
      "a key but no kind or address",
      { X_API_KEY: "secret" },
      ["AI_PROVIDER_X_API_KEY", "AI_PROVIDER_X_KIND", "AI_PROVIDER_X_BASE_URL"],
    ],
    ["a kind that needs a key but has none", { X_KIND: "openai" }, ["AI_PROVIDER_X_API_KEY is missing"]],
    ["a key with a line break", { ...own, X_API_KEY: "secret\n" }, ["AI_PROVIDER_X_API_KEY holds"]],
    [
      "a version for a kind that takes none",
      { ...own, X_API_VERSION: "v1" },
      ["AI_PROVIDER_X_API_VERSION", "remove it"],
    ],
    ["an invalid version", { X_KIND: "azure", X_API_VERSION: "v1&x=y" }, ["AI_PROVIDER_X_API_VERSION must be"]],
    ["a billing name with a space", { ...own, X_BILLING_NAME: "Open AI" }, ["AI_PROVIDER_X_BILLING_NAME must be"]],
    ["a billing name of 129 characters", { ...own, X_BILLING_NAME: "a".repeat(129) }, ["X_BILLING_NAME must be"]],
    ["an account of 257 characters", { ...own, X_ACCOUNT: "a".repeat(257) }, ["AI_PROVIDER_X_ACCOUNT must be"]],
    ["an account with a line break", { ...own, X_ACCOUNT: "a\nb" }, ["AI_PROVIDER_X_ACCOUNT must be"]],
    ["an account that begins with a space", { ...own, X_ACCOUNT: " a" }, ["AI_PROVIDER_X_ACCOUNT must be"]],
    [
      "a switch that is neither on nor off",
      { ...own, X_ALLOW_PRIVATE: "true" },
      ["AI_PROVIDER_X_ALLOW_PRIVATE must be"],
    ],
    ["an unknown value for ON_LEAVE", { ...own, X_ON_LEAVE: "stay" }, ["AI_PROVIDER_X_ON_LEAVE must be"]],
    [
      "an endpoint that the kind lacks",
      { X_KIND: "mistral", X_API_KEY: "k", X_ENDPOINTS: "responses" },
      ["AI_PROVIDER_X_ENDPOINTS must", "chat, embeddings"],
    ],
    ["an unknown endpoint", { ...own, X_ENDPOINTS: "chat,toString" }, ["AI_PROVIDER_X_ENDPOINTS must"]],
    [
      "an unknown field name for the output limit",
      { ...own, X_OUTPUT_LIMIT: "limit" },
      ["AI_PROVIDER_X_OUTPUT_LIMIT must be"],
    ],
    ["an address that is not a URL", { X_BASE_URL: "llm.example.com" }, ["AI_PROVIDER_X_BASE_URL is not a URL"]],
    [
      "an address with an unsupported scheme",
      { X_BASE_URL: "ftp://llm.example.com" },
      ["AI_PROVIDER_X_BASE_URL must begin with https://"],
    ],
    [
      "a query in its address",
      { X_BASE_URL: "https://llm.example.com/v1?key=secret" },
      ["AI_PROVIDER_X_BASE_URL must not have a query"],
    ],
    [
      "an empty query in its address",
      { X_BASE_URL: "https://llm.example.com/v1?" },
      ["AI_PROVIDER_X_BASE_URL must not have a query"],
    ],
    [
      "a fragment in its address",
      { X_BASE_URL: "https://llm.example.com/v1#a" },
      ["AI_PROVIDER_X_BASE_URL must not have a query or a fragment"],
    ],
    [
      "credentials in its address",
      { X_BASE_URL: "https://me:secret@llm.example.com/v1" },
      ["AI_PROVIDER_X_BASE_URL must not hold credentials", "AI_PROVIDER_X_API_KEY"],
    ],
  ])("rejects a provider with %s and names the setting, without showing a secret", ([_, settings, says]) => {
    for (const part of says) expect(() => read(settings)).toThrow(part);
    expect(() => read(settings)).not.toThrow("secret");
  });

  test("accepts a billing name of 128 characters and an account ARN of 256 characters", () => {
    const arn = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/";
    const account = `${arn}${"a".repeat(256 - arn.length)}`;
    expect(read({ ...own, X_BILLING_NAME: "a".repeat(128), X_ACCOUNT: account }).get("x")).toMatchObject({
      billingName: "a".repeat(128),
      account,
    });
  });
});

describe("public and private provider addresses", () => {
  test.for([
    "http://llm.example.com/v1",
    "http://127.0.0.1:54328/v1",
    "https://127.0.0.1/v1",
    "https://localhost/v1",
    "https://nas/v1",
    "https://llm.internal/v1",
    "https://10.0.0.1/v1",
    "https://172.16.0.1/v1",
    "https://172.31.255.255/v1",
    "https://192.168.0.1/v1",
    "https://100.100.100.200/",
    "https://169.254.169.254/",
    "https://168.63.129.16/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://[::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[64:ff9b::a00:1]/",
    "https://[fd00:ec2::254]/",
    "https://[fe80::1]/",
  ])("the address %s requires permission for private addresses", (address) => {
    expect(() => read({ X_BASE_URL: address })).toThrow("AI_PROVIDER_X_ALLOW_PRIVATE=on");
    expect(read({ X_BASE_URL: address, X_ALLOW_PRIVATE: "on" }).get("x")?.allowPrivate).toBe(true);
    expect(read({ X_BASE_URL: address }, true).get("x")?.allowPrivate).toBe(true);
    expect(() => read({ X_BASE_URL: address, X_ALLOW_PRIVATE: "off" }, true)).toThrow("AI_PROVIDER_X_ALLOW_PRIVATE=on");
  });

  test.for([
    "https://172.15.255.255/v1",
    "https://172.32.0.1/v1",
    "https://100.63.255.255/v1",
    "https://100.128.0.1/v1",
    "https://223.255.255.255/v1",
    "https://[2606:4700::1]/v1",
    "https://llm.example.com:8443/v1",
  ])("the address %s is public", (address) => {
    expect(read({ X_BASE_URL: address }).get("x")?.baseUrl).toBe(address);
  });
});

describe("Time limits", () => {
  const limitsOf = (settings: Record<string, string>) =>
    readProviders({ AI_PROVIDER_A_KIND: "openai", AI_PROVIDER_A_API_KEY: "k", ...settings }, { local: false }).get("a")
      ?.timeLimits;

  test("time limits are set in seconds, and are undefined if unset", () => {
    const settings = {
      AI_PROVIDER_A_FIRST_BYTE_SECONDS: "20",
      AI_PROVIDER_A_IDLE_SECONDS: "60",
      AI_PROVIDER_A_TOTAL_SECONDS: "400",
    };
    expect(limitsOf(settings)).toEqual({ firstByteMs: 20_000, idleMs: 60_000, totalMs: 400_000 });
    expect(limitsOf({})).toEqual({});
  });

  test.for(["FIRST_BYTE", "IDLE", "TOTAL"])("%s_SECONDS accepts whole numbers from 1 to the longest call", (name) => {
    const most = maxCallSeconds;
    const set = (value: string) => () => limitsOf({ [`AI_PROVIDER_A_${name}_SECONDS`]: value });
    for (const value of ["1", String(most)]) expect(set(value)).not.toThrow();
    const told = `AI_PROVIDER_A_${name}_SECONDS must be a whole number of seconds from 1 to ${most}.`;
    for (const value of ["0", String(most + 1), "1.5", "-1", "soon"]) expect(set(value)).toThrow(told);
  });
});
