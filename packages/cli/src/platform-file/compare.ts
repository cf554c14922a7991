import { type Fields, type Kind, listResources, type Resource, type Resources } from "./resources.ts";
import { defaultPolicy, type Platform } from "./schema.ts";

export interface Difference {
  field: string;
  before: unknown;
  after: unknown;
}

/** A change of one resource. */
export interface Step {
  action: "create" | "change" | "remove";
  resource: Resource;
  /** The fields that change. Empty for a removal, and for a new resource all that it has. */
  differences: readonly Difference[];
  /** Where a route goes, from 1. Absent if it stays. */
  position?: number;
  /** The id of the model that stops being the default of its kind. */
  replaces?: string;
}

export interface Comparison {
  /** In an order in which each step finds what it needs. */
  steps: readonly Step[];
  /** Why the platform can't become what the file says. Then nothing is changed. */
  refusals: readonly string[];
  /** What the platform has and the file doesn't name. Stays as it is. */
  unlisted: readonly string[];
}

export interface CompareOptions {
  live: Platform;
  /** The platform's time, in UTC to the second. */
  now: string;
  /** Whether what a managed list doesn't name is removed or disabled. */
  prune: boolean;
  /** The models that were never enabled, which can be deleted. */
  deletableModels: readonly string[];
}

/** The order of steps that add and change. */
const order: readonly Kind[] = [
  ...(["plan", "model", "route", "price", "grant", "limit", "app", "link", "client", "enabled", "default"] as const),
  ...(["workspace", "policy", "budget", "signUp"] as const),
];
/** The order of removals, after all others: what is removed first needs what is removed later. */
const removalOrder: readonly Kind[] = ["grant", "price", "link", "budget", "route", "limit", "model"];
/** The fields that never change. */
const fixedFields: Partial<Record<Kind, string>> = { model: "kind", app: "kind", client: "isPublic" };

/**
 * Compares a file with a platform, and returns the steps from the platform to the file. What the file doesn't name
 * stays, except with `prune`.
 * @throws Failure if the file names something twice
 */
export function comparePlatforms(file: Platform, options: CompareOptions): Comparison {
  const wanted = listResources(file, options);
  const live = listResources(options.live, options);
  const steps: Step[] = [];
  const refusals = [
    ...findDoubleDefaults(file),
    ...findMissingPlans(wanted, live),
    ...findMissingWorkspaces(file, options.live),
  ];
  const positions = placeRoutes(wanted, live);
  for (const resource of wanted.byAddress.values()) {
    const before = live.byAddress.get(resource.address)?.fields ?? findInitialFields(resource);
    const differences = compareFields(before ?? {}, resource.fields);
    const fixed = differences.find(({ field }) => before && field === fixedFields[resource.kind]);
    if (fixed) {
      const values = `from ${fixed.before} to ${fixed.after}`;
      refusals.push(`${resource.address}: ${fixed.field} can’t change ${values}. Use another name.`);
    }
    const position = positions.get(resource.address);
    if (before !== null && differences.length === 0 && position === undefined) continue;
    const action = before === null ? "create" : "change";
    steps.push({ action, resource, differences, ...(position !== undefined && { position }) });
  }
  const others = [...live.byAddress.values()].filter(
    ({ address, list }) => list !== null && wanted.lists.has(list) && !wanted.byAddress.has(address),
  );
  if (options.prune) steps.push(...others.flatMap((resource) => removalOf(resource, options)));
  const changed = new Set(steps.flatMap(({ resource: { address, target } }) => [address, target]));
  const isObject = ({ kind }: Resource) => kind !== "enabled" && kind !== "default";
  return {
    steps: swapDefaults(steps, options.live).toSorted((a, b) => rankOf(a) - rankOf(b)),
    refusals,
    unlisted: others.filter((one) => isObject(one) && !changed.has(one.address)).map(({ address }) => address),
  };
}

/** Returns the fields of what exists without being stated, or null. */
function findInitialFields({ kind, path: [collection] }: Resource): Fields | null {
  switch (kind) {
    case "enabled":
      return { enabled: collection !== "models" };
    case "default":
      return { isDefault: false };
    case "limit":
      return { requestsPerMinute: null, tokensPerMinute: null };
    case "policy":
      return defaultPolicy;
    default:
      return null;
  }
}

function compareFields(before: Fields, after: Fields): Difference[] {
  return Object.entries(after).flatMap(([field, value]) =>
    JSON.stringify(before[field]) === JSON.stringify(value) ? [] : [{ field, before: before[field], after: value }],
  );
}

function findDoubleDefaults({ models = [] }: Platform): string[] {
  const kinds = [...new Set(models.map(({ kind }) => kind))];
  return kinds.flatMap((kind) => {
    const ids = models.filter((model) => model.kind === kind && model.isDefault).map(({ id }) => id);
    return ids.length > 1 ? [`Only one ${kind} model can be the default, not ${ids.join(" and ")}.`] : [];
  });
}

/** Finds plans that are used and don't exist, since a refusal would come after other steps. */
function findMissingPlans(wanted: Resources, live: Resources): string[] {
  return [...wanted.byAddress.values()].flatMap(({ address, key, fields }) => {
    const planId = fields.planId ?? key.planId;
    const plan = `plan ${planId}`;
    const isMissing = planId !== undefined && !wanted.byAddress.has(plan) && !live.byAddress.has(plan);
    return isMissing ? [`${address}: there is no ${plan}.`] : [];
  });
}

function findMissingWorkspaces({ workspaces = [] }: Platform, live: Platform): string[] {
  const known = new Set(live.workspaces?.map(({ id }) => id));
  return workspaces.flatMap(({ id }) => (known.has(id) ? [] : [`workspace ${id} doesn’t exist.`]));
}

/**
 * Returns where routes go that are new or move, when the steps run in the file's order. Only the order of the routes
 * that the file names counts: others stay where they are among them.
 */
function placeRoutes(wanted: Resources, live: Resources): Map<string, number> {
  const positions = new Map<string, number>();
  const orders = new Map<string, { addresses: string[]; last: number }>();
  for (const { kind, address, target } of wanted.byAddress.values()) {
    if (kind !== "route") continue;
    const routes = orders.get(target) ?? { addresses: listRoutes(live, target), last: -1 };
    orders.set(target, routes);
    const { addresses, last } = routes;
    const index = addresses.indexOf(address);
    if (index > last) {
      routes.last = index;
      continue;
    }
    if (index >= 0) addresses.splice(index, 1);
    // Goes after the file's previous route. A route that was before it leaves it one place earlier.
    routes.last = index >= 0 ? last : last + 1;
    addresses.splice(routes.last, 0, address);
    positions.set(address, routes.last + 1);
  }
  return positions;
}

function listRoutes({ byAddress }: Resources, target: string): string[] {
  const routes = [...byAddress.values()].filter((resource) => resource.kind === "route" && resource.target === target);
  return routes.map(({ address }) => address);
}

/** Returns how a resource that the file doesn't name is removed or disabled, if it can be. */
function removalOf(resource: Resource, { deletableModels }: CompareOptions): Step[] {
  const { kind, key, fields } = resource;
  if (kind === "enabled" && fields.enabled === true) {
    const differences = [{ field: "enabled", before: true, after: false }];
    return [{ action: "change", resource: { ...resource, fields: { enabled: false } }, differences }];
  }
  const isRemovable =
    (kind === "price" && key.from !== null) ||
    (kind === "model" && deletableModels.includes(String(key.id))) ||
    ["route", "grant", "link", "limit", "budget"].includes(kind);
  return isRemovable ? [{ action: "remove", resource, differences: [] }] : [];
}

/**
 * Lets a new default of a kind replace the one before in one step. Otherwise, calls that name no model would fail
 * between the two.
 */
function swapDefaults(steps: readonly Step[], { models = [] }: Platform): Step[] {
  const replaced = new Set<string>();
  const marked = steps.map((step) => {
    const { kind, key, fields } = step.resource;
    if (kind !== "default" || fields.isDefault !== true) return step;
    const replaces = models.find((model) => model.kind === key.kind && model.isDefault)?.id;
    if (replaces === undefined) return step;
    replaced.add(`model ${replaces}`);
    return { ...step, replaces };
  });
  const isDone = ({ kind, target, fields }: Resource) =>
    kind === "default" && fields.isDefault === false && replaced.has(target);
  return marked.filter(({ resource }) => !isDone(resource));
}

/** Removals come last, and before them what stops a model, app or client from working. */
function rankOf({ action, resource: { kind, fields } }: Step): number {
  if (action === "remove") return 200 + removalOrder.indexOf(kind);
  return kind === "enabled" && fields.enabled === false ? 100 : order.indexOf(kind);
}
