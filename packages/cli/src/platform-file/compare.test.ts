import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { comparePlatforms, type Step } from "./compare.ts";
import { type Platform, platformSchema } from "./schema.ts";
import { writePlatform } from "./write-file.ts";

const now = "2026-12-01T00:00:00Z";
const cases = 500;
const timeout = 60_000;
const ids = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"];

const parse = (document: object): Platform => platformSchema.parse({ apiVersion: "gatehouse/v1", ...document });
const compare = (file: Platform, live: Platform) =>
  comparePlatforms(file, { live, now, prune: false, deletableModels: [] });
const compareAndPrune = (file: Platform, live: Platform) =>
  comparePlatforms(file, { live, now, prune: true, deletableModels: [] });

const chat = {
  id: "demo-chat",
  kind: "chat",
  displayName: "Demo",
  ownedBy: "demo",
  isDefault: true,
  contextWindow: 128_000,
  routes: [
    { providerId: "demo", providerModel: "a", tierMultipliers: { flex: "0.5" } },
    { providerId: "demo", providerModel: "b", totalSeconds: 60 },
  ],
  prices: [
    { providerId: "demo", inputUsd: "3", outputUsd: "15" },
    { providerId: "demo", from: "2027-01-01T00:00:00Z", inputUsd: "4", outputUsd: "16" },
  ],
  grants: { plans: ["free"], workspaces: [ids[0]] },
};
const speech = { id: "demo-speech", kind: "speech", displayName: "Speech", ownedBy: "demo", voices: ["ada", "bob"] };

/** A platform with something of every kind. */
const example = {
  signUp: "open",
  plans: [{ id: "free", name: "Free", payer: "member", requestsPerMinute: 60 }],
  models: [chat, speech],
  providerLimits: [{ providerId: "demo", requestsPerMinute: 500 }],
  apps: [{ name: "notes", displayName: "Notes", kind: "external", scopes: ["profile"], workspaces: [ids[0]] }],
  openidClients: [{ name: "grafana", displayName: "Grafana", redirectUris: ["https://grafana.example.com/login"] }],
  workspaces: [
    {
      id: ids[0],
      planId: "free",
      policy: { allowedModels: ["demo-chat"], modelLimits: [{ model: "demo-chat", requestsPerMinute: 5 }] },
      budgets: [
        { scope: "workspace", limitUsd: "50" },
        { scope: "workspace", period: "concurrent", maxCalls: 5 },
        { scope: "label", subject: "build", period: "day", limitUsd: "1.5", timeZone: "Europe/Berlin" },
      ],
    },
  ],
};

type Lists = "plans" | "models" | "providerLimits" | "apps" | "openidClients" | "workspaces";
type Named = Record<string, unknown>;

/** Returns the list and the place of a step's object, in the simulated platform. */
function findObject(platform: Named, { path }: Step["resource"]): { list: Named[]; index: number } {
  const names: Record<string, Lists> = { plans: "plans", models: "models", providers: "providerLimits", apps: "apps" };
  const name = names[path[0] ?? ""] ?? (path[0] === "workspaces" ? "workspaces" : "openidClients");
  const list = (path[0] === "settings" ? [] : platform[name]) as Named[];
  return { list, index: list.findIndex((each) => (each.id ?? each.name ?? each.providerId) === path[1]) };
}

/** What a new object has until another step changes it. */
const switchesOfNew = {
  plan: {},
  model: { enabled: false, isDefault: false },
  app: { enabled: true },
  client: { enabled: true },
};

/** Makes steps as the admin API does, and checks what it would refuse. */
function makeSteps(live: Platform, steps: readonly Step[]): Platform {
  const platform = structuredClone(live) as unknown as Named;
  for (const { action, resource, position, replaces } of steps) {
    const { kind, key, fields } = resource;
    const { list, index } = findObject(platform, resource);
    const object = list[index] ?? {};
    const childrenOf = (name: string) => object[name] as Named[];
    const has = (each: Named) => Object.entries(key).every(([field, value]) => each[field] === value);
    const isWhole = kind === "plan" || kind === "model" || kind === "app" || kind === "client";
    if (isWhole && action === "create") {
      if (index >= 0) throw new Error(`${resource.address} exists`);
      const parts = kind === "model" ? { routes: [], prices: [], grants: { plans: [], workspaces: [] } } : {};
      const links = kind === "app" ? { workspaces: [] } : {};
      list.push({ ...key, ...fields, ...switchesOfNew[kind], ...parts, ...links });
      continue;
    }
    if (kind !== "signUp" && kind !== "limit" && index < 0) throw new Error(`${resource.address} has no object`);
    if (isWhole && action === "change") Object.assign(object, fields);
    else if (isWhole) list.splice(index, 1);
    else if (kind === "signUp") Object.assign(platform, fields);
    else if (kind === "route") {
      const routes = childrenOf("routes");
      const place = routes.findIndex(has);
      if (place < 0 !== (action === "create")) throw new Error(`${resource.address} is misplaced`);
      const [route = key] = place < 0 ? [] : routes.splice(place, 1);
      if (action === "remove") continue;
      const goesTo = position === undefined ? place : position - 1;
      if (goesTo < 0 || goesTo > routes.length) throw new Error(`${resource.address} has no place ${goesTo}`);
      routes.splice(goesTo, 0, { ...route, ...fields });
    } else if (kind === "price" || kind === "budget") {
      const name = kind === "price" ? "prices" : "budgets";
      const hasRoute = () => childrenOf("routes").some((route) => route.providerId === key.providerId);
      if (kind === "price" && action !== "remove" && !hasRoute()) throw new Error(`${resource.address} has no route`);
      const others = childrenOf(name).filter((each) => !has(each));
      object[name] = action === "remove" ? others : [...others, { ...key, ...fields }];
    } else if (kind === "grant") {
      const grants = object.grants as Record<"plans" | "workspaces", string[]>;
      const [name, id] = key.planId ? (["plans", key.planId] as const) : (["workspaces", key.workspaceId] as const);
      grants[name] = grants[name].filter((each) => each !== id);
      if (action === "create") grants[name].push(id as string);
    } else if (kind === "link") {
      const links = (object.workspaces as string[]).filter((each) => each !== key.workspaceId);
      object.workspaces = action === "create" ? [...links, key.workspaceId] : links;
    } else if (kind === "limit") {
      if (index >= 0) list.splice(index, 1);
      if (action !== "remove") list.push({ providerId: resource.path[1], ...fields });
    } else if (kind === "workspace") object.planId = fields.planId;
    else if (kind === "policy") object.policy = fields;
    else if (kind === "default") {
      const old = list.find((model) => model.kind === key.kind && model.isDefault === true);
      if (fields.isDefault && old && old !== object && old.id !== replaces) throw new Error("two defaults");
      if (fields.isDefault && old) old.isDefault = false;
      object.isDefault = fields.isDefault;
    } else Object.assign(object, fields);
  }
  return platformSchema.parse(platform);
}

const name = fc.constantFrom("One", "Two", "NO", "1e3", "a: b", "Größe\u202e", "x\ny");
const decimals = fc.constantFrom("0", "1.5", "2.50", "10");
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined, freq: 3 });
const sometimes = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null });
const counts = { requestsPerMinute: sometimes(fc.constantFrom(1, 60)), tokensPerMinute: sometimes(fc.constant(1000)) };
const someIds = fc.subarray(ids);
const providers = fc.constantFrom("demo", "other");
const byKey = <Item>(item: fc.Arbitrary<Item>, selector: (item: Item) => unknown) =>
  fc.uniqueArray(item, { selector, maxLength: 4 });

const plans = byKey(
  fc.record({
    id: fc.constantFrom("free", "team", "pro"),
    name,
    payer: fc.constantFrom("member", "workspace"),
    markup: decimals,
    lowCredits: sometimes(decimals),
    ...counts,
  }),
  ({ id }) => id,
);
const routes = byKey(
  fc.record({
    providerId: providers,
    providerModel: fc.constantFrom("a", "b", "c"),
    enabled: fc.boolean(),
    tierMultipliers: fc.constantFrom({}, { flex: "0.5" }, { priority: "2", flex: "0.50" }),
    idleSeconds: sometimes(fc.constantFrom(5, 60)),
  }),
  ({ providerId, providerModel }) => `${providerId} ${providerModel}`,
);
const price = fc.record({
  serviceTier: fc.constantFrom("default", "flex"),
  minInputTokens: fc.constantFrom(0, 200_000),
  from: fc.constantFrom(null, "2026-11-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"),
  inputUsd: decimals,
  outputUsd: decimals,
  cachedInputUsd: sometimes(decimals),
});
const prices = byKey(price, ({ serviceTier, minInputTokens, from }) => `${serviceTier} ${minInputTokens} ${from}`);
/** The default models are chosen by kind, so that each kind has one at most. */
const models = fc
  .record({
    list: byKey(
      fc.record({
        id: fc.constantFrom("chat-1", "chat-2", "chat/3", "embed-1"),
        displayName: name,
        enabled: fc.boolean(),
        outputLimit: sometimes(fc.constantFrom(1, 4096)),
        routes: optional(routes),
        prices: optional(prices),
        grants: optional(fc.record({ plans: fc.constant([] as string[]), workspaces: someIds })),
      }),
      ({ id }) => id,
    ),
    defaults: fc.subarray(["chat-1", "embed-1"]),
    otherChat: fc.constantFrom(null, "chat-2", "chat/3"),
  })
  .map(({ list, defaults, otherChat }) =>
    list.map((model) => ({
      ...model,
      kind: model.id.startsWith("chat") ? "chat" : "embedding",
      ownedBy: "demo",
      isDefault:
        otherChat !== null && model.id.startsWith("chat") ? model.id === otherChat : defaults.includes(model.id),
      // A price needs a route to its provider.
      prices: model.routes?.length
        ? model.prices?.map((each) => ({ ...each, providerId: model.routes?.[0]?.providerId }))
        : undefined,
    })),
  );
const budget = fc.constantFrom(
  { scope: "workspace", limitUsd: "50" },
  { scope: "workspace", limitUsd: "60.00" },
  { scope: "workspace", period: "day", limitUsd: "5", thresholds: [90, 50] },
  { scope: "workspace", period: "concurrent", maxCalls: 3 },
  { scope: "app", subject: "notes", limitUsd: "1" },
);
const budgets = byKey(budget, (each) => JSON.stringify([each.scope, "period" in each ? each.period : "month"]));
const policy = fc.record({
  allowedModels: sometimes(fc.subarray(["chat-1", "chat-2"])),
  contentCapture: fc.boolean(),
  ...counts,
});
const workspaceSettings = { planId: fc.constantFrom("free", "team"), policy, budgets };
const app = {
  displayName: name,
  enabled: fc.boolean(),
  scopes: fc.subarray(["profile", "workspaces:read"]),
  logoutUrl: sometimes(fc.constant("https://a.example/logout")),
};

/** A file. Its plans are always there if something uses them. */
const files = fc
  .record({
    signUp: optional(fc.constantFrom("open", "invitation")),
    plans,
    models: optional(models),
    providerLimits: optional(byKey(fc.record({ providerId: providers, ...counts }), ({ providerId }) => providerId)),
    apps: optional(
      byKey(
        fc
          .record({ name: fc.constantFrom("notes", "calendar"), ...app, workspaces: optional(someIds) })
          .map((each) => ({ ...each, kind: each.name === "notes" ? "external" : "internal" })),
        (each) => each.name,
      ),
    ),
    openidClients: optional(
      byKey(
        fc
          .record({ name: fc.constantFrom("grafana", "cli"), ...app, requiresPkce: fc.boolean() })
          .map((each) => ({ ...each, isPublic: each.name === "cli" })),
        (each) => each.name,
      ),
    ),
    workspaces: optional(
      byKey(
        fc.record({
          id: fc.constantFrom(...ids),
          planId: optional(workspaceSettings.planId),
          policy: optional(policy),
          budgets: optional(budgets),
        }),
        ({ id }) => id,
      ),
    ),
  })
  .map(({ plans: listed, ...file }) => {
    const used = (file.workspaces ?? []).flatMap(({ planId }) => (planId ? [planId] : []));
    const missing = [...new Set(used)].filter((id) => !listed.some((each) => each.id === id));
    return parse({ ...file, plans: [...listed, ...missing.map((id) => ({ id, name: id, payer: "member" }))] });
  });

/** A platform has all lists, and both workspaces. */
const bothWorkspaces = fc.tuple(...ids.map(() => fc.record(workspaceSettings)));
const platforms = fc.tuple(files, bothWorkspaces).map(([file, workspaces]) => {
  const filled = (file.models ?? []).map((model) => ({
    ...model,
    routes: model.routes ?? [],
    prices: (model.prices ?? []).filter(({ from }) => from === null || from > now),
    grants: model.grants ?? { plans: [], workspaces: [] },
  }));
  const apps = (file.apps ?? []).map((each) => ({ ...each, workspaces: each.workspaces ?? [] }));
  const limits = (file.providerLimits ?? []).filter((each) => each.requestsPerMinute ?? each.tokensPerMinute);
  const { signUp = "open", openidClients = [] } = file;
  return parse({
    ...file,
    ...{ signUp, models: filled, apps, openidClients, providerLimits: limits },
    workspaces: workspaces.map((settings, place) => ({ ...settings, id: ids[place] })),
  });
});

describe("a file that is applied", () => {
  test("leaves nothing to change", { timeout }, () => {
    fc.assert(
      fc.property(files, platforms, fc.constantFrom(compare, compareAndPrune), (file, live, comparison) => {
        const { steps, refusals } = comparison(file, live);
        expect(refusals).toEqual([]);
        const applied = makeSteps(live, steps);
        expect(comparison(file, applied).steps).toEqual([]);
      }),
      { numRuns: cases },
    );
  });

  test("makes two platforms export the same text", { timeout }, () => {
    fc.assert(
      fc.property(platforms, (built) => {
        const empty = parse({
          ...{ signUp: "open", plans: [], models: [], providerLimits: [], apps: [], openidClients: [] },
          workspaces: ids.map((id) => ({ id, planId: "free", policy: {}, budgets: [] })),
        });
        const applied = makeSteps(empty, compare(built, empty).steps);
        expect(writePlatform(applied)).toBe(writePlatform(built));
      }),
      { numRuns: cases },
    );
  });

  test("without --prune removes and disables nothing that the file doesn't name", { timeout }, () => {
    fc.assert(
      fc.property(files, platforms, (file, live) => {
        const { steps } = compare(file, live);
        expect(steps.filter(({ action }) => action === "remove")).toEqual([]);
        const named = new Set((file.apps ?? []).map((each) => each.name));
        const applied = makeSteps(live, steps);
        const others = ({ apps = [] }: Platform) => apps.filter((each) => !named.has(each.name));
        expect(others(applied)).toEqual(others(live));
      }),
      { numRuns: cases },
    );
  });
});

/** Values of all types that fields have. */
const otherValues = [
  1,
  "1",
  "2",
  true,
  false,
  ...["open", "invitation", "member", "workspace", "chat", "embedding", "app"],
];
const otherTexts = ["internal", "external", "day", "month", "2027-06-01T00:00:00Z", ids[1], "other", ["x"]];

/** Lists the paths of a document's single values. */
function listPaths(value: unknown, path: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== "object" || value === null) return [path];
  const keyOf = (key: string) => (Array.isArray(value) ? Number(key) : key);
  return Object.entries(value).flatMap(([key, each]) => listPaths(each, [...path, keyOf(key)]));
}

function replaceAt(document: object, path: readonly (string | number)[], value: unknown): object {
  const copy = structuredClone(document);
  const last = path.at(-1) ?? "";
  const parent = path.slice(0, -1).reduce<Named>((object, key) => object[key] as Named, copy as unknown as Named);
  parent[last] = value;
  return copy;
}

describe("drift", () => {
  const full = parse(example);
  /** For each field, a platform that has another value there. */
  const paths = listPaths(full).flatMap((path) => {
    const changed = [...otherValues, ...otherTexts]
      .map((value) => platformSchema.safeParse(replaceAt(full, path, value)).data)
      .find((live) => live && JSON.stringify(live) !== JSON.stringify(full));
    return changed ? [{ path, live: changed }] : [];
  });

  test("has a case for every field", () => {
    const covered = new Set(paths.map(({ path }) => path.join(".")));
    const missing = listPaths(full).filter((path) => !covered.has(path.join(".")));
    // Some fields of budgets have only one value that fits the others.
    expect(missing.filter((path) => !path.includes("budgets"))).toEqual([["apiVersion"]]);
  });

  test.each(paths.map(({ path, live }) => [path.join("."), live] as const))("shows a change of %s", (_, live) => {
    const { steps, refusals, unlisted } = compare(full, live);
    expect(steps.length + refusals.length + unlisted.length).toBeGreaterThan(0);
  });

  test("shows nothing of equal platforms in another order", () => {
    const reordered = { ...example, models: example.models.toReversed(), plans: example.plans.toReversed() };
    expect(compare(full, parse(reordered)).steps).toEqual([]);
    expect(writePlatform(parse(reordered))).toBe(writePlatform(full));
  });
});

describe("a plan", () => {
  const full = parse(example);
  const withModels = (...list: object[]) => parse({ ...example, models: list });
  const addressesOf = (steps: readonly Step[]) => steps.map(({ action, resource }) => `${action} ${resource.address}`);

  test("begins with what later steps need, and enables last", () => {
    const { steps } = compare(full, parse({ signUp: "open", plans: [], models: [], workspaces: [{ id: ids[0] }] }));
    const kinds = steps.map(({ resource }) => resource.kind);
    expect(kinds.indexOf("plan")).toBeLessThan(kinds.indexOf("grant"));
    expect(kinds.indexOf("model")).toBeLessThan(kinds.indexOf("route"));
    expect(kinds.indexOf("route")).toBeLessThan(kinds.indexOf("price"));
    expect(kinds.lastIndexOf("grant")).toBeLessThan(kinds.indexOf("enabled"));
    expect(kinds.lastIndexOf("enabled")).toBeLessThan(kinds.indexOf("default"));
  });

  test("swaps the default of a kind in one step", () => {
    const other = { ...chat, id: "demo-next", isDefault: true };
    const file = withModels({ ...chat, isDefault: false }, other);
    const { steps } = compare(file, withModels({ ...chat }, { ...other, isDefault: false }));
    expect(steps).toMatchObject([{ resource: { address: "model demo-next, default" }, replaces: "demo-chat" }]);
    expect(steps).toHaveLength(1);
  });

  test.each<[string, object[], string]>([
    ["two defaults of a kind", [{ ...chat }, { ...chat, id: "b" }], "Only one chat model can be the default"],
    ["another kind", [{ ...speech, kind: "chat", voices: [] }], "kind can’t change from speech to chat"],
    ["a plan that doesn't exist", [{ ...chat, grants: { plans: ["gold"] } }], "there is no plan gold"],
  ])("refuses %s", (_, list, message) => {
    expect(compare(withModels(...list), full).refusals.join()).toContain(message);
  });

  test("refuses a workspace that doesn't exist", () => {
    const file = parse({ workspaces: [{ id: ids[1], planId: "free" }] });
    expect(compare(file, full).refusals).toEqual([`workspace ${ids[1]} doesn’t exist.`]);
  });

  test("refuses a file that names something twice", () => {
    const twice = parse({ plans: [...example.plans, ...example.plans] });
    expect(() => compare(twice, full)).toThrow("The file has plan free twice.");
    const prices = [...chat.prices.slice(0, 1), ...chat.prices.slice(0, 1)];
    expect(() => compare(withModels({ ...chat, prices }), full)).toThrow("two prices of model demo-chat");
  });

  test("takes a price that has begun for the one in force", () => {
    const later = (at: string) => comparePlatforms(full, { live: full, now: at, prune: false, deletableModels: [] });
    expect(later("2026-12-31T23:59:59Z").steps).toEqual([]);
    const begun = { ...chat, prices: [{ providerId: "demo", inputUsd: "4", outputUsd: "16" }] };
    const options = { live: withModels(begun, { ...speech }), prune: false, deletableModels: [] };
    expect(comparePlatforms(full, { ...options, now: "2027-01-01T00:00:00Z" }).steps).toEqual([]);
    expect(comparePlatforms(full, { ...options, now: "2026-12-31T23:59:59Z" }).steps).toHaveLength(2);
  });

  test("removes with --prune what a list no longer has, and disables models and apps", () => {
    const file = parse({
      ...{ models: [{ ...chat, prices: chat.prices.slice(0, 1), grants: {} }], apps: [] },
      workspaces: [{ id: ids[0], budgets: [] }],
    });
    expect(addressesOf(compareAndPrune(file, full).steps)).toEqual([
      "change model demo-speech, enabled",
      "change app notes, enabled",
      "remove model demo-chat, grant to plan free",
      `remove model demo-chat, grant to workspace ${ids[0]}`,
      "remove model demo-chat, price demo default from 2027-01-01T00:00:00Z",
      `remove workspace ${ids[0]}, budget of workspace for month`,
      `remove workspace ${ids[0]}, budget of workspace for concurrent`,
      `remove workspace ${ids[0]}, budget of label build for day`,
    ]);
    expect(compare(file, full).steps).toEqual([]);
    expect(compare(file, full).unlisted).toContain("app notes");
    expect(compareAndPrune(file, full).unlisted).not.toContain("app notes");
  });

  test("deletes with --prune a model that was never enabled, and no other", () => {
    const live = withModels({ ...chat }, { ...speech, enabled: false });
    const file = withModels({ ...chat });
    const options = { live, now, prune: true };
    expect(addressesOf(comparePlatforms(file, { ...options, deletableModels: ["demo-speech"] }).steps)).toEqual([
      "remove model demo-speech",
    ]);
    expect(comparePlatforms(file, { ...options, deletableModels: [] }).steps).toEqual([]);
  });
});
