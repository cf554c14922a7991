import { createHash } from "node:crypto";
import { z } from "zod";
import { Failure } from "../failure.ts";
import type { AdminApi, Change, LivePlatform } from "./admin-api.ts";
import type { Step } from "./compare.ts";

/** A step's request, without what all of them have. */
type Call = Omit<Change, "key" | "body"> & { body: Readonly<Record<string, unknown>> };

/** What a change names of the current state of its object. */
export interface Seen {
  version: string | null;
  routes: readonly { providerId: string; providerModel: string; position: number }[];
  prices: readonly z.infer<typeof priceSchema>[];
  /** The prices that were in force when the platform was compared. */
  pricesInForce: readonly number[];
}

const priceSchema = z.object({
  id: z.number(),
  providerId: z.string(),
  serviceTier: z.string(),
  minInputTokens: z.number(),
  from: z.string().nullable(),
  until: z.string().nullable(),
  current: z.boolean(),
});

const objectSchema = z.looseObject({ version: z.string().nullish() });
const modelSchema = z.object({
  model: z.object({
    version: z.string(),
    routes: z.array(z.object({ providerId: z.string(), providerModel: z.string(), position: z.number() })),
    prices: z.array(priceSchema),
  }),
});

/**
 * Makes the changes, one after the other. Each has an idempotency key of its own, which depends on the file and on what
 * the platform was like: repeating a request changes nothing, and a later run never repeats an earlier one.
 * @param options.onDone receives each step that was made
 * @throws Failure that names the step that failed; those after it were not begun
 */
export async function applySteps(
  steps: readonly Step[],
  {
    api,
    live,
    fileHash,
    reason,
    onDone,
  }: { api: AdminApi; live: LivePlatform; fileHash: string; reason: string; onDone: (step: Step) => void },
): Promise<void> {
  const state = sha256(JSON.stringify([fileHash, live.platform, live.targets]));
  const objects = new ObjectReader(api, live);
  for (const [place, step] of steps.entries()) {
    try {
      for (const [part, call] of listCalls(step, await objects.read(step)).entries()) {
        const key = sha256(`${state} ${step.resource.address} ${part}`);
        await api.change({ ...call, body: { ...call.body, reason }, key });
        objects.forget(step);
      }
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const progress = `${place} of ${steps.length} changes were made. To see what is left, run: gatehouse plan`;
      throw new Failure(error.kind, `${step.resource.address}: ${error.message} ${progress}`);
    }
    onDone(step);
  }
}

/** Reads what changes name, again after each change of the same object. */
class ObjectReader {
  readonly #api: AdminApi;
  readonly #live: LivePlatform;
  readonly #changed = new Set<string>();
  readonly #pricesInForce = new Map<string, readonly number[]>();

  constructor(api: AdminApi, live: LivePlatform) {
    this.#api = api;
    this.#live = live;
  }

  /** @throws Failure if another caller has changed the object since the platform was compared */
  async read({ action, resource }: Step): Promise<Seen> {
    const { kind, target, path } = resource;
    const known = this.#live.targets[target];
    const isNew = action === "create" && resource.address === target;
    if (path[0] === "models" && !isNew) return this.#readModel(target, path);
    if (["apps", "openid-clients"].includes(path[0] ?? "") && this.#changed.has(target)) {
      const answer = await this.#api.read(path, z.record(z.string(), z.unknown()));
      // An answer is the object, or holds it.
      const objects = [answer, ...Object.values(answer)].map((value) => objectSchema.safeParse(value).data);
      return versionOnly(objects.find((found) => found?.version)?.version);
    }
    // A provider has a version once a route names it, which an earlier step may have added.
    const found = kind === "limit" && !known ? (await this.#api.readPlatform()).targets[target] : known;
    return versionOnly(found?.version);
  }

  async #readModel(target: string, path: readonly string[]): Promise<Seen> {
    const { model } = await this.#api.read(path, modelSchema);
    const known = this.#live.targets[target];
    const current = model.prices.filter((price) => price.current).map(({ id }) => id);
    const prices = [
      Math.max(0, ...model.prices.map(({ id }) => id)),
      model.prices.length,
      ...current.toSorted(byNumber),
    ];
    const isChanged = known && (known.version !== model.version || known.prices !== prices.join(" "));
    if (isChanged && !this.#changed.has(target)) throw new Failure("refused", "It has changed since the plan.");
    // A price that begins after the first reading isn't what the plan replaces.
    const pricesInForce = this.#pricesInForce.get(target) ?? current;
    this.#pricesInForce.set(target, pricesInForce);
    return { ...model, pricesInForce };
  }

  forget({ resource: { target }, replaces }: Step): void {
    this.#changed.add(target);
    if (replaces !== undefined) this.#changed.add(`model ${replaces}`);
  }
}

function versionOnly(version: string | null | undefined): Seen {
  return { version: version ?? null, routes: [], prices: [], pricesInForce: [] };
}

function byNumber(a: number, b: number): number {
  return a - b;
}

/** Returns the requests of a step, in order. */
export function listCalls({ action, resource, differences, position, replaces }: Step, seen: Seen): Call[] {
  const { kind, path, key, fields } = resource;
  const { version } = seen;
  const changes = Object.fromEntries(differences.map(({ field, after }) => [field, after]));
  const before = Object.fromEntries(differences.map(({ field, before: value }) => [field, value]));
  const post = (part: string, body: Call["body"]): Call => ({ method: "POST", path: [...path, part], body });
  const patch = (body: Call["body"]): Call => ({ method: "PATCH", path, body });
  const remove = (parts: readonly string[], body: Call["body"]): Call => ({
    method: "DELETE",
    path: [...path, ...parts],
    body,
  });
  switch (kind) {
    case "plan":
    case "model":
    case "app":
    case "client":
      if (action === "create") {
        // No secret passes through this program.
        const secret = kind === "app" || kind === "client" ? { withSecret: false } : {};
        return [{ method: "POST", path: path.slice(0, 1), body: { ...key, ...fields, ...secret } }];
      }
      return [action === "remove" ? remove([], { version }) : patch({ version, ...changes })];
    case "route": {
      if (action === "create") return [post("routes", { version, ...key, ...fields, position })];
      const parts = ["routes", String(findPlace(seen, key))];
      if (action === "remove") return [remove(parts, { version })];
      const body = { version, ...changes, ...(position !== undefined && { position }) };
      return [{ method: "PATCH", path: [...path, ...parts], body }];
    }
    case "price":
      return listPriceCalls({ action, resource, seen });
    case "grant": {
      const grantee = key.planId === undefined ? { workspace: key.workspaceId } : { plan: key.planId };
      return [action === "remove" ? remove(["grants"], grantee) : post("grants", grantee)];
    }
    case "link":
      if (action === "create") return [post("workspaces", { version, workspace: key.workspaceId })];
      return [remove(["workspaces", String(key.workspaceId)], { version })];
    case "limit": {
      const limits = action === "remove" ? { requestsPerMinute: null, tokensPerMinute: null } : fields;
      return [patch({ version, ...limits })];
    }
    case "enabled":
      // Enabling a model names no version, since it is refused if there is nothing to change.
      return [post(fields.enabled ? "enable" : "disable", path[0] === "models" ? {} : { version })];
    case "default":
      return [patch({ version, ...fields, ...(fields.isDefault === true && { defaultOfKind: replaces ?? null }) })];
    case "workspace":
      return [patch({ plan: changes.planId, seen: before.planId })];
    case "policy":
      return [{ method: "PATCH", path: [...path, "policy"], body: { seen: version, policy: changes } }];
    case "budget": {
      const old = action === "remove" ? fields : { ...fields, ...before };
      const body = { ...key, seen: action === "create" ? null : old, budget: action === "remove" ? null : fields };
      return [{ method: "PATCH", path: [...path, "budgets"], body }];
    }
    case "signUp":
      return [patch({ signUp: changes.signUp, seen: before.signUp })];
  }
}

function findPlace({ routes }: Seen, key: Step["resource"]["key"]): number {
  const route = routes.find((each) => each.providerId === key.providerId && each.providerModel === key.providerModel);
  if (route) return route.position;
  throw new Failure("refused", "It has changed since the plan.");
}

/** Prices are never edited. One in force is replaced by a new one, and one that has not begun is cancelled first. */
function listPriceCalls({ action, resource, seen }: Pick<Step, "action" | "resource"> & { seen: Seen }): Call[] {
  const { path, key, fields } = resource;
  const ofTier = seen.prices.filter(
    ({ providerId, minInputTokens }) => providerId === key.providerId && minInputTokens === key.minInputTokens,
  );
  const calls: Call[] = [];
  let added = ofTier;
  if (key.from !== null && action !== "create") {
    const sameTier = ofTier.filter(({ serviceTier }) => serviceTier === key.serviceTier);
    const scheduled = sameTier.find(({ from }) => from !== null && toSecond(from) === key.from);
    if (!scheduled) throw new Failure("refused", "It has changed since the plan.");
    const previous = sameTier.find(({ until }) => until !== null && until === scheduled.from)?.id ?? null;
    const body = { previous, until: scheduled.until };
    calls.push({ method: "DELETE", path: [...path, "prices", String(scheduled.id)], body });
    added = ofTier.filter(({ id }) => id !== scheduled.id);
  }
  if (action === "remove") return calls;
  const latest = added.length > 0 ? Math.max(...added.map(({ id }) => id)) : null;
  const isReplaced = ({ id, serviceTier }: (typeof ofTier)[number]) =>
    serviceTier === key.serviceTier && seen.pricesInForce.includes(id);
  const replaces = key.from === null ? { replaces: added.find(isReplaced)?.id ?? null } : {};
  const body = { ...key, ...fields, latest, seen: added.length, ...replaces };
  return [...calls, { method: "POST", path: [...path, "prices"], body }];
}

/** Returns a time in UTC to the second, as an export writes it. */
function toSecond(time: string): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
