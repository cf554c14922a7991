import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { urlRoutes } from "../../scripts/test/routes.ts";
import { accountSteps } from "../admin/account-steps.ts";
import { appSteps } from "../admin/app-steps.ts";
import { creditChangeKinds } from "../admin/credits.ts";
import { approvalSteps } from "../admin/key-approvals.ts";
import { modelSteps } from "../admin/model-steps.ts";
import { clientSteps } from "../admin/openid-client-steps.ts";
import { mfaPolicyChanges } from "../admin/policy-step.ts";
import { platformScopes } from "../machines/scopes.ts";
import { accountSteps as serviceAccountSteps } from "../service-accounts/account-steps.ts";
import { adminApiOperations } from "./admin-operations.ts";
import { actOperations, changeOperations, readOperations } from "./definitions.ts";
import { describeRefusal } from "./refusals.ts";
import { type AdminOperationId, adminMethods, adminPatterns, listAdminOperations } from "./table.ts";

const operations = listAdminOperations();

/** The operation for each step of the pages that end with `:step`. */
const stepPages: readonly (readonly [page: string, steps: object, ids: Readonly<Record<string, AdminOperationId>>])[] =
  [
    [
      "admin/users/:userId/mfa/:step",
      mfaPolicyChanges,
      { require: "changeRequiredMfa", "make-optional": "changeRequiredMfa", reset: "resetAuthenticators" },
    ],
    [
      "admin/users/:userId/:step",
      accountSteps,
      {
        ban: "banAccount",
        unban: "unbanAccount",
        delete: "scheduleAccountDeletion",
        keep: "cancelAccountDeletion",
        "sign-out": "signAccountOut",
      },
    ],
    [
      "admin/apps/:name/:step",
      appSteps,
      {
        edit: "changeApp",
        enable: "enableApp",
        disable: "disableApp",
        rotate: "rotateAppSecret",
        link: "linkAppWorkspace",
        unlink: "unlinkAppWorkspace",
      },
    ],
    [
      "admin/openid-clients/:name/:step",
      clientSteps,
      {
        edit: "changeOpenidClient",
        enable: "enableOpenidClient",
        disable: "disableOpenidClient",
        rotate: "rotateOpenidSecret",
      },
    ],
    [
      "admin/service-accounts/:accountId/:step",
      serviceAccountSteps,
      {
        edit: "changeServiceAccount",
        enable: "changeServiceAccount",
        disable: "changeServiceAccount",
        rotate: "rotateServiceAccountSecret",
        "add-key": "addServiceAccountKey",
        remove: "removeServiceAccountCredential",
        revoke: "revokeServiceAccount",
      },
    ],
    [
      "admin/workspaces/:workspaceId/:step",
      approvalSteps,
      { approve: "approveKeys", decline: "declineKeyRequest", withdraw: "withdrawKeyApproval" },
    ],
    ["admin/credits/:payer/:ownerId/:step", creditChangeKinds, { grant: "changeCredits", withdraw: "changeCredits" }],
    [
      "admin/models/:step",
      modelSteps,
      {
        disable: "disableModel",
        delete: "deleteModel",
        grant: "grantModel",
        withdraw: "withdrawModel",
        price: "addModelPrice",
        "cancel-price": "cancelModelPrice",
      },
    ],
  ];

/** The operations that do what each page of the console shows or changes, by the page's path. */
const operationsByPage: Readonly<Record<string, readonly AdminOperationId[]>> = {
  ...Object.fromEntries(stepPages.map(([page, , ids]) => [page, Object.values(ids)])),
  admin: ["getOverview", "changeOutageMails", "listPeople"],
  "admin/accounts": ["searchAccounts"],
  "admin/users/:userId": ["getAccount", "listAccountTimeline", "listAddressBlocks", "getRequiredMfa"],
  "admin/invitations": ["listAccountInvitations"],
  "admin/invitations/new": ["inviteAccount"],
  "admin/invitations/:invitationId/revoke": ["revokeAccountInvitation"],
  "admin/settings": ["getSettings", "changeSettings"],
  "admin/address-blocks": ["listAddressBlocks"],
  "admin/address-blocks/:blockId/lift": ["liftAddressBlock"],
  "admin/recovery": ["getRecovery"],
  "admin/recovery/new": ["createRecoveryOverride"],
  "admin/recovery/:overrideId/:step": ["sendRecoveryEmail", "revokeRecoveryOverride"],
  "admin/apps": ["listApps", "listOpenidClients"],
  "admin/apps/new": ["registerApp"],
  "admin/apps/:name": ["getApp"],
  "admin/openid-clients/new": ["registerOpenidClient"],
  "admin/openid-clients/:name": ["getOpenidClient"],
  "admin/service-accounts": ["listServiceAccounts"],
  "admin/service-accounts/new": ["createServiceAccount"],
  "admin/service-accounts/:accountId": ["getServiceAccount"],
  "admin/approvals": ["listKeyRequests"],
  "admin/workspaces": ["searchWorkspaces"],
  "admin/workspaces/:workspaceId": ["getPlatformWorkspace"],
  "admin/workspaces/:workspaceId/plan": ["moveWorkspace"],
  "admin/plans": ["listPlans"],
  "admin/plans/new": ["createPlan"],
  "admin/plans/:planId": ["getPlan", "changePlan"],
  "admin/credits/:payer/:ownerId": ["getCreditAccount"],
  "admin/models": ["searchModels", "getModel"],
  "admin/models/new": ["createModel", "setUpModel", "getProviderSettings", "testRoute"],
  "admin/models/edit": ["changeModel", "enableModel", "addModelRoute", "changeModelRoute", "removeModelRoute"],
  "admin/prices": ["comparePrices", "addProposedPrices"],
  "admin/providers": ["getProviders", "searchRuns"],
  "admin/providers/:providerId": ["changeProviderLimit"],
  "admin/runs/:runId": ["inspectRun"],
  "admin/spending": ["listWorkspaceSpending", "listAccountSpending"],
  "admin/books": ["reconcileBooks", "listCostImporters", "listStatements"],
  // Files of up to 8 MiB, and invoices' documents, are sent on the pages. Importers need none.
  "admin/books/import": [],
  "admin/books/imports/:importId": ["getCostImport"],
  "admin/books/automatic-imports": ["requestCostImport", "confirmMissedDays"],
  "admin/books/costs": ["listBookCosts"],
  "admin/books/invoices": ["listBookInvoices"],
  "admin/books/invoices/new": ["recordBookInvoice"],
  "admin/books/invoices/:invoiceId": ["getBookInvoice"],
  "admin/books/close": ["getCloseChecklist", "closeMonth"],
  "admin/books/statements/:statementId": ["getStatement", "reopenMonth"],
  "admin/books/:month/:provider": ["explainBookMonth"],
  "admin/books/:month/:provider/:day": [
    "compareUsageHours",
    "fetchUsageHours",
    "markGatewayKey",
    "compareGenerations",
    "fetchGenerations",
  ],
  "admin/audit": ["listAuditLog"],
};

/** The operations that only files of the platform need. The workspace's own members have pages for its settings. */
const operationsWithoutPage: readonly AdminOperationId[] = [
  "getPlatform",
  "changeWorkspacePolicy",
  "changeWorkspaceBudget",
];

/** Functions with a change that only others call. */
const innerFunctions = ["may_change_apps", "lock_approvable_workspace", "lock_service_account"];

/** Modules that only pages need: the API calls the same functions by their names in the table, or needs no such page. */
const pageModules = ["admin/change-policy", "admin/model-setup/save-setup", "admin/model-steps", "admin/outage-mails"];

/** Returns a module with all of ours that it imports. */
function listImports(path: string, seen = new Set<string>()): Set<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const [, imported = ""] of readFileSync(path, "utf8").matchAll(/from "(\.[^"]+)"/g)) {
    listImports(join(dirname(path), imported), seen);
  }
  return seen;
}

describe("the operations of the admin API", () => {
  test("every page of the console has operations, and every operation belongs to a page", () => {
    const pages = urlRoutes.flatMap(({ path = "" }) => (/^admin($|\/)/.test(path) ? [path] : []));
    // Files and documents of what a page lists.
    const isFile = (page: string) => /\.(csv|json)$|\/document$/.test(page);
    expect(Object.keys(operationsByPage).sort()).toEqual(pages.filter((page) => !isFile(page)).sort());
    const named = new Set([...Object.values(operationsByPage).flat(), ...operationsWithoutPage]);
    expect([...named].sort()).toEqual(operations.map(({ id }) => id).sort());
  });

  test("every step of a page has an operation", () => {
    for (const [page, steps, ids] of stepPages)
      expect(Object.keys(ids).sort(), page).toEqual(Object.keys(steps).sort());
  });

  test("every change of the console in the database has an operation", () => {
    const sql = globSync("supabase/schemas/**/*.sql").map((path) => readFileSync(path, "utf8"));
    const functions = [...sql.join("\n").matchAll(/create or replace function private\.(\w+)\(change jsonb\)/g)];
    const changes = functions.flatMap(([, name = ""]) => (innerFunctions.includes(name) ? [] : [name]));
    expect(changes.length).toBeGreaterThan(30);
    const known = operations.flatMap(({ change }) => change ?? []);
    expect(changes.filter((name) => !known.includes(name))).toEqual([]);
  });

  test("the operations use every module of the console that calls the database", () => {
    const used = listImports("remix-app/admin-api/definitions.ts");
    // The documents are generated in Node, which can’t read pages.
    expect([...used].filter((path) => path.endsWith(".tsx"))).toEqual([]);
    const modules = globSync(
      "remix-app/{admin,books,service-accounts,routes/admin,routes/service-accounts}/**/*.{ts,tsx}",
    );
    const unused = modules.filter(
      (path) =>
        !(path.includes(".test.") || used.has(path)) &&
        /"(private|ai)\.\w+"|\b(applyConsoleChange|callConsole)\b/.test(readFileSync(path, "utf8")),
    );
    expect(unused.sort()).toEqual(pageModules.map((name) => `remix-app/${name}.ts`));
  });

  test("every change that a service account may make is one that the database makes once", () => {
    const sql = readFileSync("supabase/schemas/console/change-once.sql", "utf8");
    const cases = [...sql.matchAll(/when '(\w+)' then private\.(\w+)\(change\)/g)];
    for (const [, name, called] of cases) expect(called).toBe(name);
    const changes = operations.flatMap(({ id, change }) => (change && id in changeOperations ? [change] : []));
    expect(cases.map(([, name]) => name)).toEqual([...new Set(changes)].sort());
  });

  test("every refusal that the database documents for a change has a text", () => {
    const sql = globSync("supabase/schemas/**/*.sql").map((path) => readFileSync(path, "utf8"));
    const changes = new Set(operations.flatMap(({ id, change }) => (change && id in changeOperations ? [change] : [])));
    const functions = /((?:^--.*\n)+)create or replace function private\.(\w+)\(change jsonb\)/gm;
    const words = [...sql.join("\n").matchAll(functions)].flatMap(([, comment = "", name = ""]) => {
      const list = /refused:(.*?)\}/.exec(comment.replaceAll("\n-- ", " "))?.[1] ?? "";
      return changes.has(name) ? (list.replaceAll(/\([^)]*\)/g, "").match(/(?<=^|\|) *\w+/g) ?? []) : [];
    });
    expect(words.length).toBeGreaterThan(60);
    const unknown = words.filter((word) => describeRefusal(word.trim(), null)[1].includes("doesn’t know"));
    expect(unknown).toEqual([]);
  });

  test("no two operations have the same ID or the same call", () => {
    for (const list of [operations.map(({ id }) => id), operations.map(({ method, path }) => `${method} ${path}`)]) {
      expect(new Set(list).size).toBe(list.length);
    }
  });

  test("the table’s rows decide how each operation is defined, and only tests of routes change nothing", () => {
    expect(operations.flatMap(({ id, method, change }) => (method === "GET" || change ? [] : [id]))).toEqual([
      "testRoute",
    ]);
    for (const { id, method, change, scope } of operations) {
      expect([id, id in readOperations]).toEqual([id, method === "GET"]);
      const isAct = method !== "GET" && (scope === "person" || scope === "books" || change === undefined);
      expect([id, id in actOperations]).toEqual([id, isAct]);
      expect([id, id in changeOperations]).toEqual([id, method !== "GET" && !isAct]);
    }
  });

  test("operations for people accept no service account, and all others need a scope that exists", () => {
    for (const { id, credentials, scope } of adminApiOperations) {
      const isForPeople = operations.some((each) => each.id === id && each.scope === "person");
      expect([id, credentials.includes("service")]).toEqual([id, !isForPeople]);
      if (!isForPeople) expect(platformScopes, id).toContain(scope);
    }
  });

  test.for([
    ...["actor", "serviceAccount", "serviceAccountScopes", "secretHash", "requestHash", "idempotencyKey"],
    ...["requestId", "ip", "step", "unknown"],
  ])("no body has a field %s that its schema doesn’t list", (field) => {
    for (const { id, body } of adminApiOperations) {
      // Grants and withdrawals of credits have a step of their own.
      if (body === undefined || (field === "step" && id === "changeCredits")) continue;
      const sent = { ...(body.example as object), [field]: "00000000-0000-0000-0000-000000000000" };
      expect(body.schema.safeParse(sent).success, id).toBe(false);
    }
  });

  test("the routes have the paths and methods of the table", () => {
    expect(adminPatterns).toContain("api/v1/admin/plans/:planId");
    expect(adminMethods("api/v1/admin/plans/:planId")).toEqual(["GET", "PATCH", "HEAD"]);
    expect(adminMethods("api/v1/admin/plans/new")).toEqual([]);
  });
});
