import type { Provider } from "../../../supabase/functions/_gateway/providers/provider-settings.ts";
import { providerSettingName } from "../../../supabase/functions/_shared/provider-setting-names.ts";
import { type Finding, fail, warn } from "./finding.ts";
import type { NoAnswer, Reply } from "./provider-request.ts";

export type Named = { id: string; provider: Provider };
export const aboutProvider = (id: string) => `provider ${id}`;

const withoutAnswer: Record<NoAnswer, (base: string, id: string) => string> = {
  "unknown host": (base, id) =>
    `the host of ${base} is not in the DNS. Correct ${providerSettingName(id, "BASE_URL")}.`,
  private: (base, id) =>
    `the host of ${base} has a private address, which the functions refuse. For a server of your own network set ${providerSettingName(id, "ALLOW_PRIVATE")}=on.`,
  refused: (base, id) =>
    `nothing listens at ${base}. Start the server, or correct ${providerSettingName(id, "BASE_URL")}.`,
  unreachable: (base, id) =>
    `${base} cannot be reached from here. Check the network, or correct ${providerSettingName(id, "BASE_URL")}.`,
  closed: (base, id) =>
    `${base} closes the connection without an answer. Check its port and scheme in ${providerSettingName(id, "BASE_URL")}.`,
  slow: (base, id) => `${base} does not answer in time. Check ${providerSettingName(id, "BASE_URL")} and the server.`,
  "not TLS": (base, id) =>
    `${base} does not answer with TLS. Correct the port or the scheme in ${providerSettingName(id, "BASE_URL")}.`,
  "certificate expired": (base) => `the TLS certificate of ${base} is not valid today. Renew it.`,
  "certificate name": (base, id) =>
    `the TLS certificate of ${base} is for another host. Use the certificate's name in ${providerSettingName(id, "BASE_URL")}.`,
  certificate: (base) => `the TLS certificate of ${base} is not signed by a public authority. Install one that is.`,
};

export function noAnswer({ id, provider }: Named, why: NoAnswer): Finding {
  return fail(aboutProvider(id), `address: ${withoutAnswer[why](provider.baseUrl, id)}`);
}

/** The prefixes of public providers' keys. */
const keyPrefixes: readonly (readonly [string, string])[] = [
  ["sk-or-", "openrouter"],
  ["sk-ant-", "Anthropic, which is not supported"],
  ["sk-proj-", "openai"],
  ["sk-svcacct-", "openai"],
  ["sk-admin-", "openai, for administration"],
  ["gsk_", "groq"],
  ["xai-", "xai"],
  ["pplx-", "perplexity"],
  ["AIza", "gemini"],
];

function keyOrigin({ apiKey = "", kind }: Provider): string {
  const origin = keyPrefixes.find(([prefix]) => apiKey.startsWith(prefix))?.[1];
  return origin === undefined || origin === kind.name ? "" : ` It looks like a key of ${origin}.`;
}

/** Matches error texts about the API key. xAI and Gemini return 400 instead of 401 for an invalid key. */
const namesKey = /api[ _%]?(20)?key/i;
/** Azure's 429 links to a page about quotas, so the word "quota" alone proves nothing. */
const spent = /insufficient|credit|balance|billing/i;

/**
 * Finds a fault that the response to any request can reveal: in the address, the key, the account or the service.
 * @returns undefined if the response reveals no fault
 */
export function judgeReply({ id, provider }: Named, reply: Reply): Finding | undefined {
  const about = aboutProvider(id);
  if ("failed" in reply) return noAnswer({ id, provider }, reply.failed);
  const { status, text, location } = reply;
  const key = providerSettingName(id, "API_KEY");
  if (status >= 300 && status < 400) {
    const advice = `${leadsTo(provider.baseUrl, location)}: set ${providerSettingName(id, "BASE_URL")} to where the API is`;
    return fail(about, `address: ${provider.baseUrl} redirects (${status}) ${advice}. Calls follow no redirect.`);
  }
  if (status === 401 || (status === 400 && namesKey.test(text))) {
    if (!provider.apiKey) return fail(about, `key: it needs one (${status}). Set ${key}.`);
    return fail(about, `key: it refuses ${key} (${status}).${keyOrigin(provider)} Replace it with a valid one.`);
  }
  if (status === 403) {
    return fail(
      about,
      `key: it denies ${key} permission (403).${keyOrigin(provider)} Allow the key to list and call models, from this machine's address too.`,
    );
  }
  if (status === 402 || (status === 429 && spent.test(text)))
    return warn(about, `credit: the account is out of credit or quota (${status}). Top it up, or raise its limit.`);
  if (status === 429) return warn(about, "limit: it limits our requests (429). Run the doctor again in a few minutes.");
  if (status >= 500) return fail(about, `service: it fails (${status}). See its status page or its log.`);
  return undefined;
}

function leadsTo(baseUrl: string, location: string | null): string {
  if (location === null || !URL.canParse(location, baseUrl)) return "elsewhere";
  const [from, to] = [new URL(baseUrl), new URL(location, baseUrl)];
  if (from.hostname !== to.hostname) return "to another host";
  if (from.protocol !== to.protocol) return `to ${to.protocol}//`;
  return from.port === to.port ? "to another path" : "to another port";
}

/** An endpoint's path at the end of a base URL. */
const endpointPath = /\/(chat\/completions|completions|responses|embeddings|models)$/;

/** Finds what is wrong with a base URL from its text alone. */
export function judgeAddress({ id, provider: { baseUrl, kind, apiVersion } }: Named): Finding | undefined {
  const name = providerSettingName(id, "BASE_URL");
  const { pathname } = new URL(baseUrl);
  const [path] = endpointPath.exec(pathname) ?? [];
  const wrong = (says: string) => fail(aboutProvider(id), says);
  if (kind.name === "azure" && pathname.includes("/openai/deployments")) {
    return wrong(
      `address: ${name} has a deployment's path, which is added to it. Set it to ${new URL(baseUrl).origin}.`,
    );
  }
  if (path) {
    const base = baseUrl.slice(0, -path.length);
    return wrong(`address: ${name} ends in ${path}, which is added to it. Set it to ${base}.`);
  }
  if (kind.name === "azure" && apiVersion === undefined && !pathname.endsWith("/v1")) {
    return wrong(
      `kind: azure needs a version. Let ${name} end in /openai/v1, or set ${providerSettingName(id, "API_VERSION")} for the classic API.`,
    );
  }
  if (kind.name === "azure" && apiVersion !== undefined && pathname.endsWith("/openai/v1"))
    return wrong(
      `kind: azure's v1 API takes no version. Remove ${providerSettingName(id, "API_VERSION")}, or /openai/v1 from ${name}.`,
    );
  return undefined;
}

/**
 * Returns other base URLs on the same host where the API may be: below the configured one, or at the kind's usual path.
 */
export function otherBases({ baseUrl, kind, apiVersion }: Provider): string[] {
  const usual = usualPath({ kind, apiVersion });
  const bases = [`${baseUrl}/v1`, `${new URL(baseUrl).origin}${usual}`, baseUrl.replace(/\/openai$/, "")];
  return [...new Set(bases)].filter((base) => base !== baseUrl && !/\/v1(beta)?\/v1$/.test(base));
}

function usualPath({ kind: { baseUrl, basePath }, apiVersion }: Pick<Provider, "kind" | "apiVersion">): string {
  if (apiVersion !== undefined) return "";
  return baseUrl ? new URL(baseUrl).pathname.replace(/\/$/, "") : (basePath ?? "");
}

/** Reports that the API is not at the configured base URL. `found` is the API's actual base URL, if known. */
export function notThere({ id, provider }: Named, reply: Reply, found: string | undefined): Finding {
  const name = providerSettingName(id, "BASE_URL");
  const { baseUrl, kind } = provider;
  const got = "failed" in reply ? "nothing" : `${reply.isPage ? "a web page" : "no API"} (${reply.status})`;
  const usual = usualPath(provider);
  const path = usual === "" ? "without a path" : `in ${usual}`;
  const hint =
    baseUrl.endsWith(usual) && usual !== "" ? "" : `For kind ${kind.name} the base URL usually ends ${path}. `;
  const advice = found
    ? `The API is at ${found}: set ${name} to it.`
    : `${hint}Correct ${name} or ${providerSettingName(id, "KIND")}.`;
  return fail(aboutProvider(id), `address: at ${baseUrl} there is ${got}. ${advice}`);
}
