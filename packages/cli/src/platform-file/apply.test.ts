import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AdminApi, type LivePlatform } from "./admin-api.ts";
import { applySteps, listCalls, type Seen } from "./apply.ts";
import { comparePlatforms, type Step } from "./compare.ts";
import { type Platform, platformSchema } from "./schema.ts";

const at = "2026-12-01T00:00:00Z";
const workspaceId = "00000000-0000-4000-8000-000000000001";
const parse = (document: object): Platform => platformSchema.parse({ apiVersion: "gatehouse/v1", ...document });
const model = (fields: object) => ({ id: "a/b", kind: "chat", displayName: "A", ownedBy: "x", ...fields });
const route = { providerId: "demo", providerModel: "a" };
const tier = { providerId: "demo", serviceTier: "default", minInputTokens: 0 };
const price = (inputUsd: string, from: string | null = null) => ({ ...tier, from, inputUsd, outputUsd: "1" });
const stepsOf = ({ file, live, prune = false }: { file: object; live: object; prune?: boolean }): readonly Step[] =>
  comparePlatforms(parse(file), { live: parse(live), now: at, prune, deletableModels: ["a/b"] }).steps;

const seen: Seen = {
  version: "v1",
  routes: [{ ...route, position: 3 }],
  prices: [
    { id: 7, ...price("1"), until: "2027-01-01T00:00:00.000Z", current: true },
    { id: 8, ...price("2"), serviceTier: "flex", until: null, current: true },
    { id: 9, ...price("3", "2027-01-01T00:00:00.000Z"), until: null, current: false },
  ],
  pricesInForce: [7, 8],
};

const noAmounts = Object.fromEntries(
  ["cachedInput", "cacheWrite", "cacheWrite1h", "audioInput", "audioOutput", "imageInput", "requestFee"].map((name) => [
    `${name}Usd`,
    null,
  ]),
);
const plan = { id: "team", name: "Team", payer: "workspace" };
const noLimits = { requestsPerMinute: null, tokensPerMinute: null };
const planDefaults = { markup: "1", initialCredits: "0", lowCredits: null, ...noLimits };
const client = { name: "grafana", displayName: "Grafana", redirectUris: ["https://a.example/x"] };
const clientDefaults = {
  ...{ isPublic: false, scopes: [], postLogoutRedirectUris: [], logoutUrl: null, allowsDeviceGrant: false },
  ...{ requiresPkce: true, claimsInIdToken: false, groupsWorkspaceId: null },
};
const workspace = (fields: object) => ({ workspaces: [{ id: workspaceId, ...fields }] });
const oldBudget = { maxCalls: null, reservesExpected: false, thresholds: [50, 80, 100], timeZone: "UTC" };

test.each<[string, { file: object; live: object; prune?: boolean }, unknown[]]>([
  ["adds a plan", { file: { plans: [plan] }, live: { plans: [] } }, [["POST", "plans", { ...plan, ...planDefaults }]]],
  [
    "changes only the fields of a plan that differ",
    { file: { plans: [{ ...plan, markup: "1.2" }] }, live: { plans: [plan] } },
    [["PATCH", "plans/team", { version: "v1", markup: "1.2" }]],
  ],
  [
    "moves a route, by its current position",
    {
      file: { models: [model({ routes: [route, { ...route, providerModel: "b" }] })] },
      live: { models: [model({ routes: [{ ...route, providerModel: "b" }, route] })] },
    },
    [["PATCH", "models/a/b/routes/1", { version: "v1", position: 2 }]],
  ],
  [
    "removes a route",
    { file: { models: [model({ routes: [] })] }, live: { models: [model({ routes: [route] })] }, prune: true },
    [["DELETE", "models/a/b/routes/3", { version: "v1" }]],
  ],
  [
    "adds a price with what it saw in all tiers",
    {
      file: { models: [model({ prices: [price("2")] })] },
      live: { models: [model({ prices: [price("1")] })] },
    },
    [["POST", "models/a/b/prices", { ...price("2"), ...noAmounts, latest: 9, seen: 3, replaces: 7 }]],
  ],
  [
    "replaces a price that has not begun",
    {
      file: { models: [model({ prices: [price("4", "2027-01-01T00:00:00Z")] })] },
      live: { models: [model({ prices: [price("3", "2027-01-01T00:00:00Z")] })] },
    },
    [
      ["DELETE", "models/a/b/prices/9", { previous: 7, until: null }],
      ["POST", "models/a/b/prices", { ...price("4", "2027-01-01T00:00:00Z"), ...noAmounts, latest: 8, seen: 2 }],
    ],
  ],
  [
    "withdraws a grant",
    {
      file: { models: [model({ grants: {} })] },
      live: { models: [model({ grants: { plans: ["free"] } })] },
      prune: true,
    },
    [["DELETE", "models/a/b/grants", { plan: "free" }]],
  ],
  [
    "deletes a model that was never enabled",
    { file: { models: [] }, live: { models: [model({ enabled: false })] }, prune: true },
    [["DELETE", "models/a/b", { version: "v1" }]],
  ],
  [
    "enables a model",
    { file: { models: [model({})] }, live: { models: [model({ enabled: false })] } },
    [["POST", "models/a/b/enable", {}]],
  ],
  [
    "names the default that it replaces",
    {
      file: { models: [model({ isDefault: true }), model({ id: "b" })] },
      live: { models: [model({}), model({ id: "b", isDefault: true })] },
    },
    [["PATCH", "models/a/b", { version: "v1", isDefault: true, defaultOfKind: "b" }]],
  ],
  [
    "replaces no default that it doesn't know",
    { file: { models: [model({ isDefault: true })] }, live: { models: [model({})] } },
    [["PATCH", "models/a/b", { version: "v1", isDefault: true, defaultOfKind: null }]],
  ],
  [
    "removes a limit",
    {
      file: { providerLimits: [] },
      live: { providerLimits: [{ providerId: "demo", requestsPerMinute: 5 }] },
      prune: true,
    },
    [["PATCH", "providers/demo", { version: "v1", requestsPerMinute: null, tokensPerMinute: null }]],
  ],
  [
    "disables an OpenID client",
    { file: { openidClients: [] }, live: { openidClients: [client] }, prune: true },
    [["POST", "openid-clients/grafana/disable", { version: "v1" }]],
  ],
  [
    "registers a client without a secret",
    { file: { openidClients: [client] }, live: { openidClients: [] } },
    [["POST", "openid-clients", { ...client, ...clientDefaults, withSecret: false }]],
  ],
  [
    "links an app",
    {
      file: { apps: [{ name: "notes", displayName: "N", kind: "external", workspaces: [workspaceId] }] },
      live: { apps: [{ name: "notes", displayName: "N", kind: "external" }] },
    },
    [["POST", "apps/notes/workspaces", { version: "v1", workspace: workspaceId }]],
  ],
  [
    "moves a workspace, and changes its policy and a budget",
    {
      file: {
        plans: [plan],
        ...workspace({
          planId: "team",
          policy: { contentCapture: true },
          budgets: [{ scope: "workspace", limitUsd: "5" }],
        }),
      },
      live: {
        plans: [plan],
        ...workspace({ planId: "free", policy: {}, budgets: [{ scope: "workspace", limitUsd: "4" }] }),
      },
    },
    [
      ["PATCH", `workspaces/${workspaceId}`, { plan: "team", seen: "free" }],
      ["PATCH", `workspaces/${workspaceId}/policy`, { seen: "v1", policy: { contentCapture: true } }],
      [
        "PATCH",
        `workspaces/${workspaceId}/budgets`,
        {
          ...{ scope: "workspace", subject: null, period: "month" },
          seen: { ...oldBudget, limitUsd: "4" },
          budget: { ...oldBudget, limitUsd: "5" },
        },
      ],
    ],
  ],
  [
    "removes a budget",
    {
      file: workspace({ budgets: [] }),
      live: workspace({ budgets: [{ scope: "label", subject: "x", limitUsd: "4" }] }),
      prune: true,
    },
    [
      [
        "PATCH",
        `workspaces/${workspaceId}/budgets`,
        { scope: "label", subject: "x", period: "month", seen: { ...oldBudget, limitUsd: "4" }, budget: null },
      ],
    ],
  ],
  [
    "closes sign-up",
    { file: { signUp: "invitation" }, live: { signUp: "open" } },
    [["PATCH", "settings", { signUp: "invitation", seen: "open" }]],
  ],
])("a step %s", (_, platforms, calls) => {
  const positions = { ...seen, routes: [...seen.routes, { ...route, providerModel: "b", position: 1 }] };
  const made = stepsOf(platforms).flatMap((step) => listCalls(step, positions));
  expect(made.map(({ method, path, body }) => [method, path.join("/"), body])).toEqual(calls);
});

describe("applying", () => {
  let server: Server;
  let api: AdminApi;
  let answers: ((request: Received, times: number) => Answer | undefined)[];
  let requests: Received[];
  interface Received {
    method: string;
    path: string;
    key: string | undefined;
    authorization: string | undefined;
    body: unknown;
  }
  type Answer = { status: number; body?: object; location?: string; retryAfter?: string };

  beforeEach(async () => {
    requests = [];
    answers = [];
    server = createServer(async (incoming, response) => {
      let text = "";
      for await (const chunk of incoming) text += chunk;
      const { method = "", url = "", headers } = incoming;
      const { authorization } = headers;
      const key = headers["idempotency-key"] as string | undefined;
      const body: unknown = text === "" ? null : JSON.parse(text);
      const request = { method, path: url.replace("/api/v1/admin/", ""), key, authorization, body };
      requests.push(request);
      const times = requests.filter((each) => each.path === request.path && each.method === method).length;
      const answer = answers.map((each) => each(request, times)).find((each) => each !== undefined) ?? { status: 204 };
      response.writeHead(answer.status, {
        "content-type": "application/json",
        ...(answer.location && { location: answer.location }),
        ...(answer.retryAfter && { "retry-after": answer.retryAfter }),
      });
      response.end(answer.body ? JSON.stringify(answer.body) : undefined);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const account = { url, clientId: "svc_1", getToken: async () => "ghs_1" };
    api = new AdminApi(account, { retryDelaysMs: [1, 1] });
  });
  afterEach(() => server.close());

  const last = { by: "ada@example.com", at, serviceAccountId: null };
  const liveOf = (document: object): LivePlatform => ({
    at,
    platform: parse(document),
    leftOut: [],
    targets: { "plan team": { version: "p1", last }, "model a/b": { version: "m1", prices: "9 3 7 8", last } },
    deletableModels: [],
  });
  const apply = async (file: object, document: object) => {
    const live = liveOf(document);
    const done: string[] = [];
    const onDone = ({ resource }: Step) => {
      done.push(resource.address);
    };
    const options = { api, live, fileHash: "f", reason: "Ticket 1", onDone };
    await applySteps(stepsOf({ file, live: document }), options);
    return done;
  };
  const plans = { file: { plans: [{ ...plan, markup: "2" }] }, live: { plans: [plan] } };

  test("sends the token, the reason and a key with each change", async () => {
    expect(await apply(plans.file, plans.live)).toEqual(["plan team"]);
    expect(requests).toEqual([
      {
        method: "PATCH",
        path: "plans/team",
        key: expect.stringMatching(/^[0-9a-f]{64}$/),
        authorization: "Bearer ghs_1",
        body: { version: "p1", markup: "2", reason: "Ticket 1" },
      },
    ]);
  });

  test.each([500, 503, 429])("repeats a change that got %s, with the same key", async (status) => {
    answers = [(_, times) => (times < 3 ? { status } : undefined)];
    await apply(plans.file, plans.live);
    expect(new Set(requests.map(({ key }) => key)).size).toBe(1);
    expect(requests).toHaveLength(3);
  });

  test("waits as long as a rate limit says", async () => {
    answers = [(_, times) => (times < 2 ? { status: 429, retryAfter: "1" } : undefined)];
    const start = performance.now();
    await apply(plans.file, plans.live);
    expect(performance.now() - start).toBeGreaterThan(950);
  });

  test("gives up after three requests, and says what was made", async () => {
    answers = [() => ({ status: 503 })];
    await expect(apply(plans.file, plans.live)).rejects.toMatchObject({
      kind: "unreachable",
      message: expect.stringContaining("0 of 1 changes were made"),
    });
    expect(requests).toHaveLength(3);
  });

  test("uses another key once the platform has changed, so that a change made before is made again", async () => {
    await apply(plans.file, plans.live);
    await apply(plans.file, plans.live);
    const [first, second] = requests.map(({ key }) => key);
    expect(second).toBe(first);
    last.at = "2026-12-01T00:00:01Z";
    await apply(plans.file, plans.live);
    expect(requests[2]?.key).not.toBe(first);
  });

  test("reads a model's version again after each change of it", async () => {
    answers = [
      ({ method }, times) =>
        method === "GET"
          ? {
              status: 200,
              body: { model: { version: `m${times}`, routes: [], prices: seen.prices } },
            }
          : undefined,
    ];
    const file = { models: [model({ displayName: "B", outputLimit: 5, routes: [route] })] };
    await apply(file, { models: [model({ routes: [] })] });
    const versionIn = (body: unknown) => (body as { version?: string } | null)?.version;
    expect(requests.map(({ method, path, body }) => [method, path, versionIn(body)])).toEqual([
      ["GET", "models/a%2Fb", undefined],
      ["PATCH", "models/a%2Fb", "m1"],
      ["GET", "models/a%2Fb", undefined],
      ["POST", "models/a%2Fb/routes", "m2"],
    ]);
  });

  test("replaces no price that has begun since the plan", async () => {
    const begun = seen.prices.map((each) => ({ ...each, current: each.id !== 7 }));
    answers = [
      ({ method }, times) =>
        method === "GET"
          ? { status: 200, body: { model: { version: "m1", routes: [], prices: times === 1 ? seen.prices : begun } } }
          : undefined,
    ];
    const prices = [price("2"), { ...price("5"), serviceTier: "flex" }];
    await apply({ models: [model({ outputLimit: 5, prices })] }, { models: [model({ prices: [] })] });
    const bodies = requests.filter(({ path }) => path.endsWith("prices")).map(({ body }) => body);
    expect(bodies).toMatchObject([{ replaces: 7 }, { replaces: 8 }]);
  });

  test.each([
    ["its settings", { version: "m0", prices: seen.prices }],
    ["its prices", { version: "m1", prices: seen.prices.slice(0, 2) }],
    ["its prices in force", { version: "m1", prices: seen.prices.map((each) => ({ ...each, current: true })) }],
  ])("changes nothing if %s have changed since the plan", async (_, fields) => {
    answers = [() => ({ status: 200, body: { model: { routes: [], ...fields } } })];
    const answer = apply({ models: [model({ outputLimit: 5 })] }, { models: [model({})] });
    await expect(answer).rejects.toThrow("model a/b: It has changed since the plan.");
    expect(requests).toHaveLength(1);
  });

  test("stops at the first refusal, with its reason", async () => {
    answers = [() => ({ status: 409, body: { detail: "ada@example.com changed it.", refusal: "conflict" } })];
    const file = {
      plans: [
        { ...plan, markup: "2" },
        { ...plan, id: "pro" },
      ],
    };
    await expect(apply(file, plans.live)).rejects.toThrow("plan team: ada@example.com changed it. 0 of 2 changes");
    expect(requests).toHaveLength(1);
  });

  test.each(["../keys", "../../../oauth/token", "%2e%2e/keys"])(
    "calls nothing outside the admin API: %s",
    async (path) => {
      const call = { method: "GET", path, body: undefined, key: undefined };
      await expect(api.call(call)).rejects.toMatchObject({ kind: "refused" });
      expect(requests).toEqual([]);
    },
  );

  test("follows no redirect with its token", async () => {
    answers = [() => ({ status: 307, location: "http://127.0.0.1:1/" })];
    await expect(apply(plans.file, plans.live)).rejects.toMatchObject({ kind: "unreachable" });
    expect(new Set(requests.map(({ path }) => path))).toEqual(new Set(["plans/team"]));
  });

  test.each([
    ["an unknown field", { platform: { apiVersion: "gatehouse/v1", quotas: [] } }],
    ["another version", { platform: { apiVersion: "gatehouse/v2" } }],
    ["a field of another release", { platform: { apiVersion: "gatehouse/v1", apps: [{ name: "ab", secret: "x" }] } }],
    ["nothing", { platform: null }],
  ])("reads no platform with %s", async (_, fields) => {
    answers = [() => ({ status: 200, body: { at, targets: {}, deletableModels: [], ...fields } })];
    await expect(api.readPlatform()).rejects.toMatchObject({ kind: "refused" });
  });

  test("leaves out an object with values that a file cannot state, and says which", async () => {
    const odd = { id: "00000000-0000-4000-8000-000000000000", policy: { deniedModels: [null] } };
    const plan = { id: "team", name: "Team", payer: "member" };
    const platform = { apiVersion: "gatehouse/v1", plans: [plan], workspaces: [odd] };
    answers = [() => ({ status: 200, body: { at, targets: {}, deletableModels: [], platform } })];
    const live = await api.readPlatform();
    expect(live.platform).toMatchObject({ plans: [plan], workspaces: [] });
    expect(live.leftOut).toEqual([expect.stringContaining(`workspaces ${odd.id}: policy.deniedModels.0 `)]);
  });

  test("reads the workspaces that a file names, a hundred at a time", async () => {
    const ids = Array.from({ length: 101 }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`);
    answers = [
      ({ path }) => ({
        status: 200,
        body: {
          ...{ at, targets: {}, deletableModels: [] },
          platform: {
            apiVersion: "gatehouse/v1",
            workspaces: path
              .split("=")[1]
              ?.split(",")
              .map((id) => ({ id })),
          },
        },
      }),
    ];
    const { platform } = await api.readPlatform(parse({ workspaces: ids.map((id) => ({ id })) }));
    expect(platform.workspaces?.map(({ id }) => id)).toEqual(ids);
    expect(requests).toHaveLength(2);
  });
});
