import { expect, test } from "vitest";
import { comparePlatforms } from "./compare.ts";
import { describeDrift, describePlan } from "./describe.ts";
import { platformSchema } from "./schema.ts";

const parse = (document: object) => platformSchema.parse({ apiVersion: "gatehouse/v1", ...document });
const model = (fields: object) => ({ kind: "chat", displayName: "M", ownedBy: "x", ...fields });
const route = (providerModel: string) => ({ providerId: "demo", providerModel });
const price = (inputUsd: string) => ({ providerId: "demo", inputUsd, outputUsd: "15" });

const live = parse({
  plans: [{ id: "free", name: "Free", payer: "member" }],
  models: [
    model({ id: "a", routes: [route("x"), route("y")], prices: [price("3.5")], grants: { plans: ["free"] } }),
    model({ id: "b", isDefault: true }),
  ],
  apps: [{ name: "notes", displayName: "Notes", kind: "internal", scopes: ["profile"] }],
});
const file = parse({
  plans: [{ id: "team", name: "Team\u001b[2J", payer: "workspace", lowCredits: "5" }],
  models: [
    model({ id: "a", isDefault: true, routes: [route("y"), route("x")], prices: [price("3")], grants: {} }),
    model({ id: "b" }),
  ],
  apps: [{ name: "notes", displayName: "Notes", kind: "internal", logoutUrl: "https://a.example/x" }],
});
const compare = (prune: boolean) =>
  comparePlatforms(file, { live, now: "2026-12-01T00:00:00Z", prune, deletableModels: [] });

test("a plan shows each change with its fields, and what the file doesn't name", () => {
  expect(describePlan(compare(false))).toEqual([
    "+ plan team",
    "    name: Team\u001b[2J",
    "    payer: workspace",
    "    markup: 1",
    "    initialCredits: 0",
    "    lowCredits: 5",
    "~ model a, route demo x",
    "    position: 2",
    "~ model a, price demo default",
    "    inputUsd: 3.5 → 3",
    "~ app notes",
    "    scopes: profile → none",
    "    logoutUrl: none → https://a.example/x",
    "~ model a, default",
    "    isDefault: no → yes",
    "    instead of: b",
    "Not in the file, and left as it is: plan free; model a, grant to plan free.",
    "1 to add, 4 to change.",
  ]);
});

test("a plan with --prune shows what is removed, and what stays nevertheless", () => {
  expect(describePlan(compare(true)).slice(-3)).toEqual([
    "- model a, grant to plan free",
    "Not in the file, and left as it is: plan free.",
    "1 to add, 4 to change, 1 to remove.",
  ]);
});

test("drift shows both values, and who else made the last change", () => {
  const at = "2026-11-30T18:00:00Z";
  const lastChanges = new Map([
    ["model a", { by: "ada@example.com", at, serviceAccountId: null }],
    ["app notes", { by: "CI", at, serviceAccountId: "1" }],
  ]);
  const lines = describeDrift(compare(false), { lastChanges, clientId: "svc_1" });
  expect(lines.slice(0, 9)).toEqual([
    "+ plan team is missing",
    "~ model a, route demo x",
    "    position: 2 in the file",
    `    last change of model a: by ada@example.com at ${at}`,
    "~ model a, price demo default",
    "    inputUsd: 3 in the file, 3.5 live",
    `    last change of model a: by ada@example.com at ${at}`,
    "~ app notes",
    "    scopes: none in the file, profile live",
  ]);
  expect(lines.filter((line) => line.includes("last change of app notes"))).toEqual([]);
  const other = describeDrift(compare(false), { lastChanges, clientId: "svc_2" });
  expect(other).toContain(`    last change of app notes: by CI at ${at}`);
});

test("equal platforms have no differences", () => {
  const options = { live, now: "2026-12-01T00:00:00Z", prune: true, deletableModels: [] };
  expect(describePlan(comparePlatforms(live, options))).toEqual(["No differences."]);
});
