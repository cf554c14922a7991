import { z } from "zod";
import { externalIdPattern, labelPattern } from "../../_shared/labels.ts";
import { maxCallSeconds } from "../../_shared/longest-call.ts";
import { isPrivateHost } from "../../_shared/private-addresses.ts";
import { providerSettingName, providerSettingPrefix } from "../../_shared/provider-setting-names.ts";
import { type Region, regions } from "../../_shared/regions.ts";
import type { Endpoint, Endpoints, ProviderKind } from "./kinds/kind.ts";
import { kinds } from "./kinds/registry.ts";
import type { OwnLimits } from "./limits.ts";

/**
 * A model provider's settings. Its address comes only from the environment, so no database row can redirect a request.
 */
export type Provider = {
  /** The base URL, without a trailing slash. */
  baseUrl: string;
  /** The API key. Absent if the server needs none. */
  apiKey?: string;
  /** The provider's kind, after the settings have overridden some of its values. */
  kind: ProviderKind;
  apiVersion?: string;
  /** The provider's name in imported costs and invoices, and the provider account that is billed for the API key. */
  billingName?: string;
  account?: string;
  /** Where the provider processes calls, as the operator states it. */
  region?: Region;
  /** Whether the provider may have a private address or use HTTP without TLS. */
  allowPrivate: boolean;
  timeLimits?: OwnLimits;
  /**
   * Whether the provider charges for calls that the client abandons. If so, reading the rest of the answer for its
   * usage costs nothing extra.
   */
  drains: boolean;
};

const kindNames = Object.keys(kinds) as [keyof typeof kinds];
const endpointNames: readonly string[] = [
  "chat",
  "responses",
  "messages",
  "count_tokens",
  "embeddings",
  "speech",
] satisfies Endpoint[];
const label = z.string().regex(labelPattern, "must be 1 to 128 of A-Z a-z 0-9 . _ : -");
const externalId = z
  .string()
  .regex(externalIdPattern, "must be 1 to 256 characters, without line breaks or white space at either end");
const seconds = (max: number) =>
  z
    .string()
    .regex(/^\d{1,5}$/, `must be a whole number of seconds from 1 to ${max}`)
    .transform(Number)
    .refine((value) => value >= 1 && value <= max, `must be a whole number of seconds from 1 to ${max}`);
const onOff = z.enum(["on", "off"], "must be on or off").transform((value) => value === "on");

/** The settings of one provider. The keys are the last parts of the variables' names. */
const settings = z.object({
  KIND: z.enum(kindNames, `must be one of ${kindNames.join(", ")}`).optional(),
  BASE_URL: z.string().optional(),
  API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, "holds a space, a line break or another character that no header can carry")
    .optional(),
  API_VERSION: z
    .string()
    .regex(/^[A-Za-z0-9.-]{1,64}$/, "must be a version such as 2024-10-21")
    .optional(),
  BILLING_NAME: label.optional(),
  ACCOUNT: externalId.optional(),
  REGION: z.enum(regions, `must be one of ${regions.join(", ")}`).optional(),
  ALLOW_PRIVATE: onOff.optional(),
  ON_LEAVE: z.enum(["cancel", "drain"], "must be cancel or drain").optional(),
  ENDPOINTS: z.string().optional(),
  OUTPUT_LIMIT: z
    .enum(["max_tokens", "max_completion_tokens"], "must be max_tokens or max_completion_tokens")
    .optional(),
  STREAM_OPTIONS: onOff.optional(),
  FIRST_BYTE_SECONDS: seconds(maxCallSeconds).optional(),
  IDLE_SECONDS: seconds(maxCallSeconds).optional(),
  TOTAL_SECONDS: seconds(maxCallSeconds).optional(),
});
type Settings = z.output<typeof settings>;

/** The kind of a provider whose settings name none. */
const defaultKind = kinds["openai-compatible"];

const suffixes = Object.keys(settings.shape);
const settingName = new RegExp(`^${providerSettingPrefix}_([A-Z][A-Z0-9_]*?)_(${suffixes.join("|")})$`);

/**
 * Reads the settings of all providers. A provider needs no address setting if its kind has a public address.
 * @param local whether the project runs on this machine, so that providers may be in its local network
 * @returns providers by lower-case id, the form in which routes name them
 * @throws Error that names the missing, wrong or misspelt setting and says what to do
 */
export function readProviders(
  env: Record<string, string | undefined>,
  { local }: { local: boolean },
): Map<string, Provider> {
  const settingsById = new Map<string, Record<string, string>>();
  for (const [name, value] of Object.entries(env)) {
    if (!value || !name.startsWith(providerSettingPrefix)) continue;
    const [, id, suffix] = settingName.exec(name) ?? [];
    if (id === undefined || suffix === undefined) throw new Error(misspellingMessage(name));
    settingsById.set(id, { ...settingsById.get(id), [suffix]: value });
  }
  return new Map([...settingsById].map(([id, texts]) => [id.toLowerCase(), readProvider(id, texts, local)]));
}

/** Returns the settings that a provider of a kind needs, by the last parts of their names. */
export function listRequiredSettings(kind: ProviderKind): (keyof Settings)[] {
  return [
    ...(kind.name === defaultKind.name ? [] : (["KIND"] as const)),
    ...(kind.baseUrl === undefined ? (["BASE_URL"] as const) : []),
    ...(kind.keyRequired ? (["API_KEY"] as const) : []),
  ];
}

function misspellingMessage(name: string): string {
  const squeezed = name.replaceAll("_", "").toUpperCase();
  const meant = suffixes.find((suffix) => squeezed.endsWith(suffix.replaceAll("_", "")));
  const hint = meant === undefined ? "" : ` Did you mean one that ends in _${meant}?`;
  return `${name} is not a setting.${hint} A provider takes AI_PROVIDER_<ID>_ and one of ${suffixes.join(", ")}.`;
}

function readProvider(id: string, texts: Record<string, string>, local: boolean): Provider {
  const name = (suffix: keyof Settings) => providerSettingName(id, suffix);
  const { success, data, error } = settings.safeParse(texts);
  if (!success) {
    const [issue] = error.issues;
    throw new Error(`${name(issue?.path[0] as keyof Settings)} ${issue?.message}.`);
  }
  if (!data.KIND && !data.BASE_URL) {
    const [first] = Object.keys(data) as (keyof Settings)[];
    throw new Error(
      `${name(first ?? "KIND")} is set, but neither ${name("KIND")} nor ${name("BASE_URL")}: add one of them, or remove the first.`,
    );
  }
  const kind = data.KIND ? kinds[data.KIND] : defaultKind;
  const baseUrl = data.BASE_URL ?? kind.baseUrl;
  if (!baseUrl) throw new Error(`${name("BASE_URL")} is missing: kind ${kind.name} has no address of its own.`);
  if (kind.keyRequired && !data.API_KEY) throw new Error(`${name("API_KEY")} is missing: kind ${kind.name} needs one.`);
  if (data.API_VERSION && !kind.versionedEndpoints) {
    throw new Error(`${name("API_VERSION")} is set, but kind ${kind.name} has no versions: remove it.`);
  }
  const allowPrivate = data.ALLOW_PRIVATE ?? local;
  const fault = addressFault(baseUrl, { allowPrivate, allowName: name("ALLOW_PRIVATE"), keyName: name("API_KEY") });
  if (fault) throw new Error(`${name("BASE_URL")} ${fault}`);
  return {
    baseUrl: baseUrl.replace(/\/+$/, ""),
    apiKey: data.API_KEY,
    kind: {
      ...kind,
      endpoints: readEndpoints(data.ENDPOINTS, {
        existing: (data.API_VERSION ? kind.versionedEndpoints : undefined) ?? kind.endpoints,
        name: name("ENDPOINTS"),
      }),
      outputLimit: data.OUTPUT_LIMIT ?? kind.outputLimit,
      streamOptions: chooseStreamOptions(kind, data.STREAM_OPTIONS),
    },
    apiVersion: data.API_VERSION,
    billingName: data.BILLING_NAME,
    account: data.ACCOUNT,
    region: data.REGION,
    allowPrivate,
    timeLimits: {
      ...(data.FIRST_BYTE_SECONDS ? { firstByteMs: data.FIRST_BYTE_SECONDS * 1_000 } : {}),
      ...(data.IDLE_SECONDS ? { idleMs: data.IDLE_SECONDS * 1_000 } : {}),
      ...(data.TOTAL_SECONDS ? { totalMs: data.TOTAL_SECONDS * 1_000 } : {}),
    },
    drains: data.ON_LEAVE === "drain",
  };
}

function chooseStreamOptions({ streamOptions }: ProviderKind, on: boolean | undefined): ProviderKind["streamOptions"] {
  if (on === undefined || (on && streamOptions.length > 0)) return streamOptions;
  return on ? ["include_usage"] : [];
}

function readEndpoints(text: string | undefined, { existing, name }: { existing: Endpoints; name: string }): Endpoints {
  if (text === undefined) return existing;
  const chosen: Endpoints = {};
  for (const part of text.split(",").map((each) => each.trim())) {
    const endpoint = part as Endpoint;
    const address = endpointNames.includes(part) ? existing[endpoint] : undefined;
    if (!address) {
      throw new Error(`${name} must name one or more of ${Object.keys(existing).join(", ")}, with commas between.`);
    }
    chosen[endpoint] = address;
  }
  return chosen;
}

/**
 * Checks a base URL.
 * @returns what is wrong with it, as a message for operators
 */
function addressFault(
  text: string,
  { allowPrivate, allowName, keyName }: { allowPrivate: boolean; allowName: string; keyName: string },
): string | undefined {
  if (!URL.canParse(text)) return "is not a URL such as https://llm.example.com/v1.";
  const { protocol, hostname, username, password } = new URL(text);
  if (protocol !== "https:" && protocol !== "http:") return "must begin with https://.";
  if (username || password) return `must not hold credentials: put the key into ${keyName}.`;
  if (/[?#]/.test(text)) return "must not have a query or a fragment: paths are added to it.";
  if (allowPrivate) return undefined;
  if (protocol !== "https:") return `must begin with https://. For a server of your own network set ${allowName}=on.`;
  if (isPrivateHost(hostname)) return `names a private address. For a server of your own network set ${allowName}=on.`;
  return undefined;
}
