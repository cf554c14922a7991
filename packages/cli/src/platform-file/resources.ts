import { Failure } from "../failure.ts";
import type { Platform } from "./schema.ts";

export type Kind =
  | "plan"
  | "model"
  | "route"
  | "price"
  | "grant"
  | "limit"
  | "enabled"
  | "default"
  | "app"
  | "client"
  | "link"
  | "workspace"
  | "policy"
  | "budget"
  | "signUp";

type Model = NonNullable<Platform["models"]>[number];
type Price = NonNullable<Model["prices"]>[number];
export type Fields = Readonly<Record<string, unknown>>;

/** One thing that an operation of the API creates, changes or removes. */
export interface Resource {
  kind: Kind;
  /** Its unique name for people, such as `model gpt-5, route openai gpt-5`. */
  address: string;
  /** The object to which it belongs, as the audit log names it: `model gpt-5`. */
  target: string;
  /** The path of that object below /api/v1/admin. */
  path: readonly string[];
  /** The list that names it. Null for what is never removed because a file doesn't name it. */
  list: string | null;
  /** What identifies it within its object. */
  key: Fields;
  fields: Fields;
}

export interface Resources {
  byAddress: ReadonlyMap<string, Resource>;
  /** The lists that the document has. Only these are managed. */
  lists: ReadonlySet<string>;
}

/**
 * Divides a document into its resources, in its order.
 * @param options.now the platform's time, in UTC to the second. A price that began before it is the one in force.
 * @throws Failure if two of them are the same
 */
export function listResources(platform: Platform, { now }: { now: string }): Resources {
  const byAddress = new Map<string, Resource>();
  for (const resource of generateResources(platform, now)) {
    if (byAddress.has(resource.address)) throw new Failure("configuration", `The file has ${resource.address} twice.`);
    byAddress.set(resource.address, resource);
  }
  return { byAddress, lists: new Set(generateLists(platform)) };
}

function* generateLists(platform: Platform): Generator<string> {
  for (const [name, value] of Object.entries(platform)) if (Array.isArray(value)) yield name;
  for (const model of platform.models ?? []) {
    for (const name of ["routes", "prices", "grants"] as const) if (model[name]) yield `${name} of model ${model.id}`;
  }
  for (const { name, workspaces } of platform.apps ?? []) if (workspaces) yield `workspaces of app ${name}`;
  for (const { id, budgets } of platform.workspaces ?? []) if (budgets) yield `budgets of workspace ${id}`;
}

function* generateResources(platform: Platform, now: string): Generator<Resource> {
  const { signUp, plans = [], models = [], providerLimits = [], apps = [], openidClients = [] } = platform;
  for (const { id, ...fields } of plans) {
    yield build("plan", { target: `plan ${id}`, path: ["plans", id], list: "plans", key: { id }, fields });
  }
  for (const model of models) yield* generateModel(model, now);
  for (const { providerId, ...fields } of providerLimits) {
    const limit = { target: `provider ${providerId}`, path: ["providers", providerId], list: "providerLimits", fields };
    yield build("limit", { ...limit, name: "limits" });
  }
  for (const { name, enabled, workspaces = [], ...fields } of apps) {
    const app = { target: `app ${name}`, path: ["apps", name], list: "apps" };
    yield build("app", { ...app, key: { name }, fields });
    yield build("enabled", { ...app, name: "enabled", fields: { enabled } });
    const list = `workspaces of app ${name}`;
    for (const workspaceId of workspaces) {
      yield build("link", { ...app, list, name: `workspace ${workspaceId}`, key: { workspaceId } });
    }
  }
  for (const { name, enabled, ...fields } of openidClients) {
    const client = { target: `app ${name}`, path: ["openid-clients", name], list: "openidClients" };
    const address = `OpenID client ${name}`;
    yield { ...build("client", { ...client, key: { name }, fields }), address };
    yield { ...build("enabled", { ...client, fields: { enabled } }), address: `${address}, enabled` };
  }
  for (const { id, planId, policy, budgets = [] } of platform.workspaces ?? []) {
    const workspace = { target: `workspace ${id}`, path: ["workspaces", id], list: null };
    if (planId !== undefined) yield build("workspace", { ...workspace, name: "plan", fields: { planId } });
    if (policy) yield build("policy", { ...workspace, name: "policy", fields: policy });
    for (const { scope, subject, period, ...fields } of budgets) {
      const name = ["budget of", scope, subject, "for", period].filter(Boolean).join(" ");
      const key = { scope, subject, period };
      yield build("budget", { ...workspace, list: `budgets of workspace ${id}`, name, key, fields });
    }
  }
  if (signUp !== undefined) {
    yield build("signUp", { target: "sign-up", path: ["settings"], list: null, fields: { signUp } });
  }
}

function* generateModel(model: Model, now: string): Generator<Resource> {
  const { id, kind, enabled, isDefault, routes = [], prices = [], grants, ...settings } = model;
  const target = `model ${id}`;
  const owner = { target, path: ["models", id], list: "models" };
  yield build("model", { ...owner, key: { id }, fields: { kind, ...settings } });
  yield build("enabled", { ...owner, name: "enabled", fields: { enabled } });
  yield build("default", { ...owner, name: "default", key: { kind }, fields: { isDefault } });
  for (const { providerId, providerModel, ...fields } of routes) {
    const route = { list: `routes of ${target}`, name: `route ${providerId} ${providerModel}` };
    yield build("route", { ...owner, ...route, key: { providerId, providerModel }, fields });
  }
  for (const { providerId, serviceTier, minInputTokens, from, ...fields } of pricesAt(prices, { now, target })) {
    const tier = minInputTokens === 0 ? serviceTier : `${serviceTier} above ${minInputTokens} tokens`;
    const price = { list: `prices of ${target}`, name: `price ${providerId} ${tier}${from ? ` from ${from}` : ""}` };
    yield build("price", { ...owner, ...price, key: { providerId, serviceTier, minInputTokens, from }, fields });
  }
  const grant = { ...owner, list: `grants of ${target}` };
  for (const planId of grants?.plans ?? []) {
    yield build("grant", { ...grant, name: `grant to plan ${planId}`, key: { planId } });
  }
  for (const workspaceId of grants?.workspaces ?? []) {
    yield build("grant", { ...grant, name: `grant to workspace ${workspaceId}`, key: { workspaceId } });
  }
}

/**
 * Returns the prices in force, which have no beginning, and the later ones. A file need not change when a price that it
 * has scheduled begins.
 */
function pricesAt(prices: readonly Price[], { now, target }: { now: string; target: string }): Price[] {
  const current = new Map<string, Price>();
  const scheduled = new Map<string, Price>();
  const beginnings = new Set<string>();
  for (const price of prices.toSorted((a, b) => (a.from ?? "").localeCompare(b.from ?? ""))) {
    const { providerId, serviceTier, minInputTokens, from } = price;
    const tier = `${providerId} ${serviceTier} ${minInputTokens}`;
    const beginning = `${tier} ${from}`;
    if (beginnings.has(beginning)) {
      throw new Failure("configuration", `The file has two prices of ${target} for ${beginning.replace(" null", "")}.`);
    }
    beginnings.add(beginning);
    if (from !== null && from > now) scheduled.set(beginning, price);
    else current.set(tier, { ...price, from: null });
  }
  return [...current.values(), ...scheduled.values()];
}

function build(
  kind: Kind,
  {
    name,
    key = {},
    fields = {},
    ...owner
  }: Omit<Resource, "kind" | "address" | "key" | "fields"> &
    Partial<Pick<Resource, "key" | "fields">> & { name?: string },
): Resource {
  return { kind, address: name === undefined ? owner.target : `${owner.target}, ${name}`, ...owner, key, fields };
}
